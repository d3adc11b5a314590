/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STATE_H
#define GPUSHARE_SHIM_STATE_H
/* The shim's settings from the environment, read once, when they are first needed. */
#include <stdatomic.h>
#include <stdbool.h>

#include "rules.h"
#include "shim_when.h"

/* Was any rule given? If not, the program gets the driver's own pointers instead of hooks. */
bool state_is_active(void);

/* Set while no rule can match any more and no log counts allocations: state_may_match() would
 * return false. */
extern atomic_bool state_idle;

/* $GPUSHARE_DEFERRED_FREE, in bytes. */
uint64_t state_deferred(void);

/* $GPUSHARE_TIMEOUT_MS, as client_default_timeout_ms(). */
unsigned int state_timeout_ms(void);

/* Does GPUSHARE_PUBLISH name any of `when`? False without a GPUSHARE_NAME rule. Cheap; no lock. */
bool state_publishes(enum publish_when when);

/* Could a rule that can still match concern the allocation? Looks at size and calls only; no lock.
 * Call it once for each allocation, because it counts allocations for the log; not needed while
 * state_idle is set. At exit, the log names the rules that matched no allocation. */
bool state_may_match(const struct rules_allocation *allocation);

/* rules_match(), rules_return() and rules_uncount() under the rules' lock. */
bool state_match(enum rules_kind kind, const struct rules_allocation *allocation,
		 struct rules_match *out);
void state_return(enum rules_kind kind, size_t rule, uint64_t index);
void state_uncount(enum rules_kind kind, const struct rules_allocation *allocation);

/* Write a line to GPUSHARE_LOG, a file or "stderr". Without that variable, do nothing. errno stays
 * unchanged. */
__attribute__((format(printf, 1, 2))) void state_log(const char *format, ...);

#endif
