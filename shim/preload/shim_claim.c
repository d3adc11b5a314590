/* SPDX-License-Identifier: MIT */
#include "shim_claim.h"

#include <errno.h>
#include <string.h>

#include "shim_lookup.h"
#include "shim_process.h"

bool claim_prepare(struct claim *claim, int device, const void *caller)
{
	struct rules_allocation *allocation = &claim->allocation;
	bool prepared;
	int error;

	if (!process_is_mine() || process_is_ending())
		return false;
	memset(claim->records, 0, sizeof(claim->records));
	site_guard();
	error = errno;
	claim->driver = lookup_driver();
	allocation->device = device;
	prepared = claim->driver && (device != CLAIM_CURRENT_DEVICE ||
				     claim->driver->cuCtxGetDevice(&allocation->device) == CU_OK);
	if (prepared) { /* from= tests the caller of the runtime call, else of the driver call */
		allocation->from = site_path(site_here.runtime ? site_here.caller : caller);
		prepared = !site_is_internal(allocation->from);
	}
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
