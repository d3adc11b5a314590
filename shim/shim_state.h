/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STATE_H
#define GPUSHARE_SHIM_STATE_H
/* What the environment asks of the shim, read once, at the first look-up that concerns us. */
#include <stdbool.h>

#include "rules.h"

/* Some rule was given: pointers are replaced. False: the program gets the driver's own. */
bool state_is_active(void);

/* Is there a rule left that could take an allocation? Cheap; no lock. */
bool state_wants(enum rules_kind kind);

/* rules_match() under the rules' lock. False also in a child that was forked after the shim began
 * to work: it passes through until exec. */
bool state_match(enum rules_kind kind, const struct rules_allocation *allocation,
		 struct rules_match *out);

/* Is this the process that the shim works for? (Anyone is, until it begins.) */
bool state_is_mine(void);

/* GPUSHARE_LOG=FILE or "stderr": a line on what could not be done. Silent without it. */
__attribute__((format(printf, 1, 2))) void state_log(const char *format, ...);

/* One line on stderr, for what the user must see. */
void state_tell(const char *line);

#endif
