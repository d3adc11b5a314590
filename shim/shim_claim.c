/* SPDX-License-Identifier: MIT */
#include "shim_claim.h"

#include <errno.h>

#include "shim_lookup.h"
#include "shim_process.h"
#include "shim_site.h"

static bool is_wanted(enum rules_kind kind, const struct rules_allocation *allocation)
{
	return state_wants(kind) && state_concerns(kind, allocation);
}

/* The runtime's caller where its call was seen, else the driver's. */
static bool find_caller(struct claim *claim, const void *caller)
{
	claim->allocation.from = site_path(site_here.runtime ? site_here.caller : caller);
	return !site_is_internal(claim->allocation.from);
}

static bool find_device(struct claim *claim, int device)
{
	cu_device current;

	claim->driver = lookup_driver();
	if (!claim->driver)
		return false;
	if (device == CLAIM_CURRENT_DEVICE) {
		if (!claim->driver->cuCtxGetDevice ||
		    claim->driver->cuCtxGetDevice(&current) != CU_OK)
			return false;
		device = current;
	}
	claim->allocation.device = device;
	return true;
}

bool claim_open(struct claim *claim, enum rules_api call, size_t size, int device,
		const void *caller)
{
	int error;
	bool opened;

	state_count(size);
	claim->pool = 0;
	claim->allocation =
	    (struct rules_allocation){.size = size, .driver = call, .runtime = site_here.runtime};
	if (!is_wanted(RULES_NAME, &claim->allocation) &&
	    !is_wanted(RULES_ATTACH, &claim->allocation))
		return false;
	if (!process_is_mine() || process_is_ending())
		return false;
	error = errno;
	opened = find_device(claim, device) && find_caller(claim, caller);
	errno = error;
	return opened;
}

bool claim_take(struct claim *claim, enum rules_kind kind)
{
	int error = errno;
	bool taken = is_wanted(kind, &claim->allocation) &&
		     state_match(kind, &claim->allocation, &claim->match);

	errno = error;
	return taken;
}

void claim_return(const struct claim *claim, enum rules_kind kind)
{
	int error = errno;

	state_return(kind, &claim->allocation, &claim->match);
	errno = error;
}
