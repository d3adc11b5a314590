/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLAIM_H
#define GPUSHARE_SHIM_CLAIM_H
/* An allocation that is about to happen, and what the rules want with it. */
#include "cuda/driver.h"
#include "shim_site.h"
#include "shim_state.h"

#define CLAIM_CURRENT_DEVICE (-1)

struct claim {
	const struct driver *driver;
	struct rules_allocation allocation;
	struct rules_match match; /* of the last claim_take() that was true */
	unsigned int pool;	  /* of stream-ordered memory; pools_number(), 0: none */
};

/* Behind claim_open(), for allocations that a rule may concern. */
bool claim_prepare(struct claim *claim, int device, const void *caller);

/*
 * May any rule concern an allocation of `size` bytes by `call`, made from the place `caller`?
 * False, after a few loads, for nearly all. On the `device`, or that of the current context: without
 * one it is the driver's to refuse. errno stays.
 */
static inline bool claim_open(struct claim *claim, enum rules_api call, size_t size, int device,
			      const void *caller)
{
	if (atomic_load_explicit(&state_idle, memory_order_relaxed))
		return false;
	claim->pool = 0;
	claim->allocation =
	    (struct rules_allocation){.size = size, .driver = call, .runtime = site_here.runtime};
	return state_may_match(&claim->allocation) && claim_prepare(claim, device, caller);
}

/* Ask the rules of that kind: `claim->match` says what they want. */
bool claim_take(struct claim *claim, enum rules_kind kind);

/* The allocation failed: no name is used up. */
void claim_return(const struct claim *claim, enum rules_kind kind);

#endif
