/* SPDX-License-Identifier: MIT */
#include "shim_claim.h"

#include <errno.h>

#include "shim_lookup.h"
#include "shim_process.h"

/* Note which object file called the runtime or, if no runtime call was seen, the driver. Return
 * false if that file is NCCL. */
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
		if (claim->driver->cuCtxGetDevice(&current) != CU_OK)
			return false;
		device = current;
	}
	claim->allocation.device = device;
	return true;
}

bool claim_prepare(struct claim *claim, int device, const void *caller)
{
	int error;
	bool prepared;

	if (!process_is_mine() || process_is_ending())
		return false;
	site_guard();
	error = errno;
	prepared = find_device(claim, device) && find_caller(claim, caller);
	errno = error;
	return prepared;
}

bool claim_take(struct claim *claim, enum rules_kind kind)
{
	int error = errno;
	bool taken = state_concerns(kind, &claim->allocation) &&
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
