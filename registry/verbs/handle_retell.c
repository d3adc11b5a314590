/* SPDX-License-Identifier: MIT */
/* retell: all that a client has, after its connection was lost. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "state/access.h"
#include "verbs/check.h"
#include "os/clock.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "note.h"
#include "order_page.h"
#include "os/piece.h"
#include "quota.h"

/* Until the last part nothing counts as told of, but what comes meanwhile. */
static void begin(struct lease *lease)
{
	if (lease->retelling)
		return;
	lease->retelling = true;
	lease->round++;
	lease->unheard.entry = lease->entries;
	lease->unheard.attachment = lease->attachments;
}

static struct entry *find(const struct registry *registry, const gpushare_Hold *hold)
{
	struct entry *entry = store_find(&registry->store, hold->name);

	return entry && entry->info.generation == hold->generation ? entry : NULL;
}

static void want(reply *answer, const gpushare_Hold *hold)
{
	gpushare_RetellReply *body = &answer->body.retell;

	body->wanted[body->wanted_count++] = hold->generation;
}

static void tell_shared(struct registry *registry, struct lease *lease, const gpushare_Hold *hold,
			reply *answer)
{
	struct entry *entry = find(registry, hold);
	const struct entry *nameless = limbo_find(registry, hold->generation);

	/* Of what was unlinked only its free is owed. */
	if (nameless && nameless->lease == lease) {
		if (nameless->untold)
			want(answer, hold);
		return;
	}
	if (entry && !entry->lease && entry->owner.uid == lease->peer.uid &&
	    process_is_same(&entry->owner, &lease->peer))
		keep_return(registry, entry, lease);
	if (!entry || entry->lease != lease || entry->info.missing)
		want(answer, hold);
	if (entry && entry->lease == lease)
		entry->told = lease->round;
}

/* Where others could say so to come by what is not theirs, only what the registry knows counts. */
static bool may_hold(const struct registry *registry, const struct lease *lease,
		     const struct entry *entry)
{
	return entry ? access_of(lease, entry) & ACCESS_READ : !registry->is_system;
}

static int tell_attached(struct registry *registry, struct lease *lease, const gpushare_Hold *hold,
			 reply *answer)
{
	const struct entry *entry = registry_find(registry, hold->name, hold->generation);
	const struct attachment *before =
	    lease_find_attachment(lease, hold->name, hold->generation);
	const struct attachment *same = lease_find_generation(lease, hold->generation);
	unsigned int had = before ? before->count : 0;
	int status;
	struct attachment *attachment;

	if (!hold->count || (!before && !may_hold(registry, lease, entry)))
		return GPUSHARE_OK;
	if (same && !before)
		return explain(answer, GPUSHARE_E_INVALID,
			       "generation %" PRIu64 " is \"%s\", not \"%s\"", hold->generation,
			       same->name, hold->name);
	status = limit_check(registry, lease->user, LIMIT_attachments,
			     hold->count > had ? hold->count - had : 0, answer);
	if (status)
		return status;
	attachment = registry_set(registry, lease, hold->name, hold->generation, hold->count);
	if (!attachment)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	attachment->told = lease->round;
	if (entry ? entry->info.missing
		  : !store_find(&registry->store, hold->name) &&
			!registry_has_gone(registry, hold->name, hold->generation))
		want(answer, hold);
	return GPUSHARE_OK;
}

/* It was there before its owner: kept by another one, and adopted. */
static bool is_older(const struct entry *entry)
{
	int64_t boot_ns = entry->created_ns + clock_read_ns(CLOCK_BOOTTIME) - clock_ns();
	int64_t tick_ns = NS_PER_S / sysconf(_SC_CLK_TCK);

	return boot_ns < (int64_t)entry->owner.started * tick_ns;
}

/* What its owner never heard of, and nobody before it. */
static bool is_nobodys(const struct entry *entry, const gpushare_Retell *retell)
{
	return entry->info.generation > retell->unanswered_after &&
	       !strcmp(entry->info.name, retell->unanswered) && !is_older(entry);
}

/* It has been freed, or another thread is about to say so, and to ask whether it is to be held: then it
 * has its place already. */
static void end_entry(struct registry *registry, struct entry *entry, const gpushare_Retell *retell)
{
	bool nobodys = is_nobodys(entry, retell);

	if (!nobodys && entry_stays(entry->info.flags)) {
		keep_orphan(registry, entry);
	} else if (!nobodys && !backing_is_fd(entry->info.backing) && entry->info.attachers &&
		   limbo_enter(registry, entry, DEPARTURE_WITHDRAWN)) {
		entry->info.in_limbo = false;
		entry->untold = true;
		note_entry(registry, entry);
		events_tell_departure(registry, entry, DEPARTURE_WITHDRAWN);
		order_check(registry, entry->info.generation);
	} else {
		registry_remove(registry, entry, DEPARTURE_WITHDRAWN);
	}
}

static void end_unheard_entry(struct registry *registry, struct lease *lease,
			      const gpushare_Retell *retell)
{
	struct entry *entry = lease->unheard.entry;

	lease->unheard.entry = entry->next;
	if (entry->told == lease->round)
		return;
	log_line("withdraw: uid %u pid %d (%s), \"%s\", while it was away", lease->peer.uid,
		 lease->peer.pid, lease->peer.command, entry->info.name);
	end_entry(registry, entry, retell);
}

static void end_unheard_attachment(struct registry *registry, struct lease *lease)
{
	struct attachment *attachment = lease->unheard.attachment;

	lease->unheard.attachment = attachment->next;
	if (attachment->told != lease->round)
		registry_detach(registry, lease, attachment, attachment->count);
}

/* What was not told of goes, a piece of it. false: there is more. */
static bool end(struct registry *registry, struct lease *lease, const gpushare_Retell *retell)
{
	struct piece piece = piece_begin();

	while (lease->unheard.entry || lease->unheard.attachment) {
		if (piece_is_over(&piece))
			return false;
		if (lease->unheard.entry)
			end_unheard_entry(registry, lease, retell);
		else
			end_unheard_attachment(registry, lease);
	}
	lease->retelling = false;
	return true;
}

/* What a client has had nobody else is given, whatever became of the records. Where several
 * users are served nobody may use the numbers up for all. */
static int pass(struct registry *registry, const gpushare_Hold *holds, pb_size_t count,
		reply *answer)
{
	for (pb_size_t i = 0; i < count; i++) {
		int status = check_generation(holds[i].name, holds[i].generation, answer);

		if (status)
			return status;
		if (!registry->is_system)
			generation_pass(&registry->generation, holds[i].generation);
	}
	return GPUSHARE_OK;
}

int handle_retell(struct registry *registry, struct lease *lease, const request *ask, reply *answer)
{
	const gpushare_Retell *retell = &ask->verb.retell;
	int status = pass(registry, retell->shared, retell->shared_count, answer);

	if (!status)
		status = pass(registry, retell->attached, retell->attached_count, answer);
	if (status)
		return status;
	begin(lease);
	for (pb_size_t i = 0; i < retell->shared_count; i++)
		tell_shared(registry, lease, &retell->shared[i], answer);
	for (pb_size_t i = 0; i < retell->attached_count; i++) {
		status = tell_attached(registry, lease, &retell->attached[i], answer);
		if (status)
			return status;
	}
	if (retell->last && !end(registry, lease, retell)) {
		status = limit_check(registry, lease->user, LIMIT_waiters, 1, answer);
		return status ? status : HANDLE_MORE;
	}
	answer->which_body = gpushare_Reply_retell_tag;
	return GPUSHARE_OK;
}
