/* SPDX-License-Identifier: MIT */
#include "shim_claim.h"

#include <errno.h>
#include <string.h>

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
	memset(claim->records, 0, sizeof(claim->records));
	site_guard();
	error = errno;
	prepared = find_device(claim, device) && find_caller(claim, caller);
	errno = error;
	return prepared;
}

bool claim_take(struct claim *claim, enum rules_kind kind)
{
	struct claim_record *record = &claim->records[kind];
	int error = errno;

	record->counted = true;
	record->taken = state_match(kind, &claim->allocation, &claim->match);
	if (record->taken) {
		record->rule = claim->match.rule;
		record->index = claim->match.index;
	}
	errno = error;
	return record->taken;
}

void claim_leave(struct claim *claim, enum rules_kind kind)
{
	struct claim_record *record = &claim->records[kind];

	if (record->taken)
		state_return(kind, record->rule, record->index);
	record->taken = false;
}

void claim_fail(struct claim *claim)
{
	int error = errno;

	for (int kind = RULES_NAME; kind <= RULES_ATTACH; kind++) {
		struct claim_record *record = &claim->records[kind];

		claim_leave(claim, (enum rules_kind)kind);
		if (record->counted)
			state_uncount((enum rules_kind)kind, &claim->allocation);
		record->counted = false;
	}
	errno = error;
}
