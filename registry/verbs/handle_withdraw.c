/* SPDX-License-Identifier: MIT */
/* withdraw: removes a name, and defers the free if others have the buffer attached. deferred:
 * returns which deferred frees are due. */
#include <inttypes.h>
#include <string.h>

#include "verbs/call.h"

static void answer_deferred(const struct call *call, const struct entry *entry)
{
	log_line("deferred free: \"%s\", generation %" PRIu64 ", attached %" PRIu32 " times",
		 call->name, entry->info.generation, entry->info.attachers);
	call->answer->body.withdraw.deferred = true;
}

/* The owner frees a buffer that has lost its name already. */
static int withdraw_nameless(const struct call *call, struct entry *entry)
{
	if (call->ask->verb.withdraw.deferred && entry->info.attachers) {
		buffer_confirm(call->state, entry);
		answer_deferred(call, entry);
	} else {
		buffer_end(call->state, entry);
	}
	return GPUSHARE_OK;
}

bool withdraw(const struct call *call, struct entry *entry, bool defers, bool unsynced)
{
	/* Memory with a descriptor outlives its owner, so its free is never deferred. A buffer
	 * without a descriptor is never kept. */
	bool deferred = defers && !backing_is_fd(entry->info.backing) && entry->info.attachers;

	if (deferred && !state_limit(call->state, entry->user, LIMIT_deferred, 1)) {
		buffer_defer(call->state, entry, DEPARTURE_WITHDRAWN, unsynced);
		return true;
	}
	buffer_part(call->state, entry, DEPARTURE_WITHDRAWN);
	return false;
}

/* The owner does not learn of the unlink. Keep the record without a name, so that the owner can't
 * bring the buffer back by a resync. */
static void unlink_entry(const struct call *call, struct entry *entry)
{
	if (entry->session && !state_limit(call->state, entry->user, LIMIT_deferred, 1))
		buffer_defer(call->state, entry, DEPARTURE_UNLINKED, false);
	else
		buffer_remove(call->state, entry, DEPARTURE_UNLINKED);
}

int handle_withdraw(struct call *call)
{
	uint64_t generation = call->ask->verb.withdraw.generation;
	struct entry *entry = store_find_deferred(&call->state->store, generation);
	int status;

	if (entry && entry->session == call->session && !strcmp(entry->name, call->name))
		return withdraw_nameless(call, entry);
	entry = call_find(call, 0);
	if (!entry || (generation && entry->info.generation != generation))
		return explain_other(call, generation);
	if (generation && entry->session != call->session)
		return refuse(call, GPUSHARE_E_DENIED,
			      "\"%s\" was not shared through this connection; unlink it instead",
			      call->name);
	status = check_owner(call, entry, "unlink");
	if (status)
		return status;
	call_log(call, generation ? "withdraw" : "unlink", "\"%s\"", call->name);
	if (!generation)
		unlink_entry(call, entry);
	else if (call->ask->verb.withdraw.unused)
		buffer_remove(call->state, entry, DEPARTURE_WITHDRAWN);
	else if (withdraw(call, entry, call->ask->verb.withdraw.deferred, false))
		answer_deferred(call, entry);
	return GPUSHARE_OK;
}

int handle_deferred(struct call *call)
{
	const gpushare_Deferred *deferred = &call->ask->verb.deferred;
	gpushare_DeferredReply *left = &call->answer->body.deferred;

	for (pb_size_t i = 0; i < deferred->generations_count; i++) {
		struct entry *entry =
		    store_find_deferred(&call->state->store, deferred->generations[i]);
		bool own = entry && entry->session == call->session;

		if (own && entry->info.attachers)
			continue;
		left->generations[left->generations_count++] = deferred->generations[i];
		if (own)
			buffer_end(call->state, entry);
	}
	return GPUSHARE_OK;
}
