/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STATE_H
#define GPUSHARE_SHIM_STATE_H
/* What the environment asks of the shim, read once, at the first look-up that concerns us. */
#include <stdatomic.h>
#include <stdbool.h>

#include "rules.h"
#include "shim_when.h"

/* Some rule was given: pointers are replaced. False: the program gets the driver's own. */
bool state_is_active(void);

/* Is there a rule left that could take an allocation? Cheap; no lock. */
bool state_wants(enum rules_kind kind);

/* Set while state_may_match() would only say no: no rule is left, and the log counts no allocations. */
extern atomic_bool state_idle;

/* Could a rule of that kind that is left concern the allocation? Looks at size and calls only; no lock. */
bool state_concerns(enum rules_kind kind, const struct rules_allocation *allocation);

/* $GPUSHARE_DEFERRED_FREE, in bytes. */
uint64_t state_deferred(void);

/* Was it asked to publish then? Never where there is no rule that names. Cheap; no lock. */
bool state_publishes(enum publish_when when);

/* state_concerns() of either kind, to be called once for each allocation: what matched nothing is logged at exit
 * with how many there were. Need not be called while state_idle is set. */
bool state_may_match(const struct rules_allocation *allocation);

/* rules_match() and rules_return() under the rules' lock. */
bool state_match(enum rules_kind kind, const struct rules_allocation *allocation,
		 struct rules_match *out);
void state_return(enum rules_kind kind, const struct rules_allocation *allocation,
		  const struct rules_match *match);

/* GPUSHARE_LOG=FILE or "stderr": a line on what could not be done. Silent without it. */
__attribute__((format(printf, 1, 2))) void state_log(const char *format, ...);

#endif
