/* SPDX-License-Identifier: MIT */
/* limbo, and what withdraw and list have to do with it. */
#include <inttypes.h>
#include <string.h>

#include "verbs/handlers.h"
#include "os/log.h"
#include "save.h"
#include "order_page.h"

static void answer_limbo(struct registry *registry, const struct entry *entry, reply *answer)
{
	log_line("limbo: \"%s\", generation %" PRIu64 ", attached %" PRIu32 " times",
		 entry->info.name, entry->info.generation, entry->info.attachers);
	answer->which_body = gpushare_Reply_withdraw_tag;
	answer->body.withdraw.limbo = true;
	events_tell(registry, GPUSHARE_NOTICE_LIMBO, entry, entry->owner.pid);
}

bool handle_withdraw_limbo(struct registry *registry, struct entry *entry,
			   const gpushare_Withdraw *withdraw, reply *answer)
{
	bool unlink = !withdraw->generation;

	/* An owner is not told of an unlink, and after a restart would bring it back. What travels
	 * as a descriptor outlives its owner's mapping by itself. */
	if (unlink
		? !entry->session
		: !withdraw->limbo || backing_is_fd(entry->info.backing) || !entry->info.attachers)
		return false;
	if (!deferred_enter(registry, entry, unlink ? DEPARTURE_UNLINKED : DEPARTURE_WITHDRAWN))
		return false;
	if (!unlink)
		answer_limbo(registry, entry, answer);
	else
		events_tell_departure(registry, entry, DEPARTURE_UNLINKED);
	return true;
}

bool handle_withdraw_nameless(struct registry *registry, const struct session *session,
			      const gpushare_Withdraw *withdraw, reply *answer)
{
	struct entry *entry = deferred_find(registry, withdraw->generation);

	if (!entry || entry->session != session || strcmp(entry->info.name, withdraw->name))
		return false;
	if (withdraw->limbo && entry->info.attachers) {
		entry->info.in_limbo = true;
		entry->unsynced = false;
		save_entry(registry, entry);
		order_check(registry, entry->info.generation);
		answer_limbo(registry, entry, answer);
	} else {
		deferred_leave(registry, entry);
	}
	return true;
}

/* What is not there any more, or not this connection's, nobody holds for it. */
static bool is_attached(const struct entry *entry, const struct session *session)
{
	return entry && entry->session == session && entry->info.attachers;
}

int handle_limbo(struct registry *registry, struct session *session, const request *ask,
		 reply *answer)
{
	const gpushare_Limbo *limbo = &ask->verb.limbo;
	gpushare_LimboReply *left = &answer->body.limbo;

	answer->which_body = gpushare_Reply_limbo_tag;
	for (pb_size_t i = 0; i < limbo->generations_count; i++) {
		struct entry *entry = deferred_find(registry, limbo->generations[i]);

		if (is_attached(entry, session))
			continue;
		left->generations[left->generations_count++] = limbo->generations[i];
		if (entry && entry->session == session)
			deferred_leave(registry, entry);
	}
	return GPUSHARE_OK;
}

void handle_list_limbo(struct listing *listing)
{
	const struct registry *registry = listing->registry;
	size_t at = deferred_seek(registry, listing->after_generation);
	const struct entry *entry;

	while ((entry = deferred_after(registry, &at)) && handle_list_one(listing, entry))
		;
}
