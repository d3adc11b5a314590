/* SPDX-License-Identifier: MIT */
/* limbo, and what withdraw and list have to do with it. */
#include <inttypes.h>
#include <string.h>

#include "verbs/handlers.h"
#include "os/log.h"
#include "quota.h"

static void answer_limbo(const struct entry *entry, reply *answer)
{
	log_line("limbo: \"%s\", generation %" PRIu64 ", attached %" PRIu32 " times",
		 entry->info.name, entry->info.generation, entry->info.attachers);
	answer->which_body = gpushare_Reply_withdraw_tag;
	answer->body.withdraw.limbo = true;
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
	if (limit_check(registry, entry->user, LIMIT_limbo, 1, NULL))
		return false;
	buffer_defer(&registry->state, entry, unlink ? DEPARTURE_UNLINKED : DEPARTURE_WITHDRAWN,
		     false);
	if (!unlink)
		answer_limbo(entry, answer);
	return true;
}

bool handle_withdraw_nameless(struct registry *registry, const struct session *session,
			      const gpushare_Withdraw *withdraw, reply *answer)
{
	struct entry *entry = store_find_deferred(&registry->store, withdraw->generation);

	if (!entry || entry->session != session || strcmp(entry->info.name, withdraw->name))
		return false;
	if (withdraw->limbo && entry->info.attachers) {
		buffer_confirm(&registry->state, entry);
		answer_limbo(entry, answer);
	} else {
		buffer_end(&registry->state, entry);
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
		struct entry *entry = store_find_deferred(&registry->store, limbo->generations[i]);

		if (is_attached(entry, session))
			continue;
		left->generations[left->generations_count++] = limbo->generations[i];
		if (entry && entry->session == session)
			buffer_end(&registry->state, entry);
	}
	return GPUSHARE_OK;
}

void handle_list_limbo(struct listing *listing)
{
	const struct store *store = &listing->registry->store;
	const struct entry *entry = store_deferred_after(store, listing->after_generation);

	while (entry && handle_list_one(listing, entry))
		entry = store_deferred_after(store, entry->info.generation);
}
