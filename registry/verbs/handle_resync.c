/* SPDX-License-Identifier: MIT */
/* resync: all that a client has, after its connection was lost. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "state/access.h"
#include "verbs/check.h"
#include "os/clock.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "os/piece.h"
#include "quota.h"

/* Until the last part nothing counts as told of, but what comes meanwhile. */
static void begin(struct session *session)
{
	if (session->resyncing)
		return;
	session->resyncing = true;
	session->round++;
	session->unheard.entry = session->entries;
	session->unheard.attachment = session->attachments;
}

static struct entry *find(const struct registry *registry, const gpushare_Hold *hold)
{
	struct entry *entry = store_find(&registry->store, hold->name);

	return entry && entry->info.generation == hold->generation ? entry : NULL;
}

static void want(reply *answer, const gpushare_Hold *hold)
{
	gpushare_ResyncReply *body = &answer->body.resync;

	body->wanted[body->wanted_count++] = hold->generation;
}

static void tell_shared(struct registry *registry, struct session *session,
			const gpushare_Hold *hold, reply *answer)
{
	struct entry *entry = find(registry, hold);
	const struct entry *nameless = store_find_deferred(&registry->store, hold->generation);

	/* Of what was unlinked only its free is owed. */
	if (nameless && nameless->session == session) {
		if (nameless->unsynced)
			want(answer, hold);
		return;
	}
	if (entry && !entry->session && entry->owner.uid == session->peer.uid &&
	    process_is_same(&entry->owner, &session->peer))
		buffer_return(&registry->state, entry, session);
	if (!entry || entry->session != session || entry->info.missing)
		want(answer, hold);
	if (entry && entry->session == session)
		entry->told = session->round;
}

/* Where others could say so to come by what is not theirs, only what the registry knows counts. */
static bool may_hold(const struct registry *registry, const struct session *session,
		     const struct entry *entry)
{
	return entry ? access_of(session, entry) & ACCESS_READ : !registry->is_system;
}

static int tell_attached(struct registry *registry, struct session *session,
			 const gpushare_Hold *hold, reply *answer)
{
	const struct entry *entry = buffer_find(&registry->state, hold->name, hold->generation);
	const struct attachment *before =
	    session_find_attachment(session, hold->name, hold->generation);
	const struct attachment *same = session_find_generation(session, hold->generation);
	unsigned int had = before ? before->count : 0;
	int status;
	struct attachment *attachment;

	if (!hold->count || (!before && !may_hold(registry, session, entry)))
		return GPUSHARE_OK;
	if (same && !before)
		return explain(answer, GPUSHARE_E_INVALID,
			       "generation %" PRIu64 " is \"%s\", not \"%s\"", hold->generation,
			       same->name, hold->name);
	status = limit_check(registry, session->user, LIMIT_attachments,
			     hold->count > had ? hold->count - had : 0, answer);
	if (status)
		return status;
	attachment =
	    buffer_attach(&registry->state, session, hold->name, hold->generation, hold->count);
	if (!attachment)
		return explain(answer, GPUSHARE_E_NO_MEMORY, "the registry is out of memory");
	attachment->told = session->round;
	if (entry ? entry->info.missing
		  : !store_find(&registry->store, hold->name) &&
			!buffer_has_gone(&registry->state, hold->name, hold->generation))
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
static bool is_nobodys(const struct entry *entry, const gpushare_Resync *resync)
{
	return entry->info.generation > resync->unanswered_after &&
	       !strcmp(entry->info.name, resync->unanswered) && !is_older(entry);
}

/* It has been freed, or another thread is about to say so, and to ask whether it is to be held: then it
 * has its place already. */
static void end_entry(struct registry *registry, struct entry *entry, const gpushare_Resync *resync)
{
	bool nobodys = is_nobodys(entry, resync);

	if (!nobodys && entry_stays(entry->info.flags)) {
		buffer_orphan(&registry->state, entry);
	} else if (!nobodys && !backing_is_fd(entry->info.backing) && entry->info.attachers &&
		   !limit_check(registry, entry->user, LIMIT_limbo, 1, NULL)) {
		buffer_defer(&registry->state, entry, DEPARTURE_WITHDRAWN, true);
	} else {
		buffer_remove(&registry->state, entry, DEPARTURE_WITHDRAWN);
	}
}

static void end_unheard_entry(struct registry *registry, struct session *session,
			      const gpushare_Resync *resync)
{
	struct entry *entry = session->unheard.entry;

	session->unheard.entry = entry->next;
	if (entry->told == session->round)
		return;
	log_line("withdraw: uid %u pid %d (%s), \"%s\", while it was away", session->peer.uid,
		 session->peer.pid, session->peer.command, entry->info.name);
	end_entry(registry, entry, resync);
}

static void end_unheard_attachment(struct registry *registry, struct session *session)
{
	struct attachment *attachment = session->unheard.attachment;

	session->unheard.attachment = attachment->next;
	if (attachment->told != session->round)
		buffer_detach(&registry->state, session, attachment, attachment->count);
}

/* What was not told of goes, a piece of it. false: there is more. */
static bool end(struct registry *registry, struct session *session, const gpushare_Resync *resync)
{
	struct piece piece = piece_begin();

	while (session->unheard.entry || session->unheard.attachment) {
		if (piece_is_over(&piece))
			return false;
		if (session->unheard.entry)
			end_unheard_entry(registry, session, resync);
		else
			end_unheard_attachment(registry, session);
	}
	session->resyncing = false;
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

int handle_resync(struct registry *registry, struct session *session, const request *ask,
		  reply *answer)
{
	const gpushare_Resync *resync = &ask->verb.resync;
	int status = pass(registry, resync->shared, resync->shared_count, answer);

	if (!status)
		status = pass(registry, resync->attached, resync->attached_count, answer);
	if (status)
		return status;
	begin(session);
	for (pb_size_t i = 0; i < resync->shared_count; i++)
		tell_shared(registry, session, &resync->shared[i], answer);
	for (pb_size_t i = 0; i < resync->attached_count; i++) {
		status = tell_attached(registry, session, &resync->attached[i], answer);
		if (status)
			return status;
	}
	if (resync->last && !end(registry, session, resync)) {
		status = limit_check(registry, session->user, LIMIT_waiters, 1, answer);
		return status ? status : HANDLE_MORE;
	}
	answer->which_body = gpushare_Reply_resync_tag;
	return GPUSHARE_OK;
}
