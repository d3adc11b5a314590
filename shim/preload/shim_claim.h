/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLAIM_H
#define GPUSHARE_SHIM_CLAIM_H
/* An allocation that is about to be made, and the rule that takes it. */
#include "cuda/driver.h"
#include "shim_site.h"
#include "shim_state.h"

#define CLAIM_CURRENT_DEVICE (-1)

/* What the rules of one kind have done with an allocation. */
struct claim_record {
	bool counted, taken;
	size_t rule; /* if `taken`: the number of the rule, and its %i in `index` */
	uint64_t index;
};

struct claim {
	const struct driver *driver;
	struct rules_allocation allocation;
	struct rules_match match;	/* of the last claim_take() that returned true */
	struct claim_record records[2]; /* by enum rules_kind */
	cu_mem_pool pool;		/* the pool of stream-ordered memory; NULL: none */
};

/* The rest of claim_open(), for an allocation that a rule may concern. */
bool claim_prepare(struct claim *claim, int device, const void *caller);

/*
 * Return true if a rule may concern an allocation of `size` bytes by `call`, made at the address
 * `caller`. Nearly all calls get false after a few loads. CLAIM_CURRENT_DEVICE means the current
 * context's device. If no context is current, return false: the driver refuses the allocation.
 * errno stays unchanged.
 */
static inline bool claim_open(struct claim *claim, enum rules_api call, size_t size, int device,
			      const void *caller)
{
	if (atomic_load_explicit(&state_idle, memory_order_relaxed))
		return false;
	claim->pool = NULL;
	claim->allocation =
	    (struct rules_allocation){.size = size, .driver = call, .runtime = site_here.runtime};
	return state_may_match(&claim->allocation) && claim_prepare(claim, device, caller);
}

/* Return true if a rule of that kind takes the allocation. Then `claim->match` is set. */
bool claim_take(struct claim *claim, enum rules_kind kind);

/* The rule can't have the allocation after all: undo claim_take(), but leave the allocation
 * counted. */
void claim_leave(struct claim *claim, enum rules_kind kind);

/* The allocation has failed: undo the match and the counting, for both kinds of rules. */
void claim_fail(struct claim *claim);

#endif
