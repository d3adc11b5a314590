/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STATE_H
#define GPUSHARE_SHIM_STATE_H
/* What the environment asks of the shim, read once, at the first look-up that concerns us. */
#include <stdbool.h>

#include "rules.h"
#include "shim_when.h"

/* Some rule was given: pointers are replaced. False: the program gets the driver's own. */
bool state_is_active(void);

/* Is there a rule left that could take an allocation? Cheap; no lock. */
bool state_wants(enum rules_kind kind);

/* Could a rule of that kind concern the allocation? Looks at size and calls only; no lock. */
bool state_concerns(enum rules_kind kind, const struct rules_allocation *allocation);

/* $GPUSHARE_LIMBO, in bytes. */
uint64_t state_limbo(void);

/* Was it asked to publish then? Never where there is no rule that names. Cheap; no lock. */
bool state_publishes(enum publish_when when);

/* rules_match() and rules_return() under the rules' lock. */
/* An allocation is about to happen that rules may concern. What matched nothing is logged at exit with this. */
void state_count(uint64_t size);
bool state_match(enum rules_kind kind, const struct rules_allocation *allocation,
		 struct rules_match *out);
void state_return(enum rules_kind kind, const struct rules_allocation *allocation,
		  const struct rules_match *match);

/* GPUSHARE_LOG=FILE or "stderr": a line on what could not be done. Silent without it. */
__attribute__((format(printf, 1, 2))) void state_log(const char *format, ...);

#endif
