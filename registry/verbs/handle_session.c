/* SPDX-License-Identifier: MIT */
/* Handlers of hello, subscribe and resync. hello may resume the session of a lost connection. A
 * resync then restores what the client shares and has attached. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "order/order.h"
#include "os/clock.h"
#include "os/log.h"
#include "verbs/call.h"

/* `from` keeps nothing. The sessions swap their keys, so that no client knows the key of `from`. */
static void move_all(struct session *from, struct session *to)
{
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	struct entry *entry;

	memcpy(key, to->key, sizeof(key));
	memcpy(to->key, from->key, sizeof(key));
	memcpy(from->key, key, sizeof(key));
	to->record_slot = from->record_slot;
	to->entries = from->entries;
	to->attachments = from->attachments;
	participant_move_all(from, to);
	from->record_slot = 0;
	from->entries = NULL;
	from->attachments.root = NULL;
	to->resyncing = false;
	to->round = from->round;
	DL_FOREACH (to->entries, entry) {
		entry->session = to;
	}
}

/* The caller found `old` by its secret key. If `old` is disconnected and its process has no pid
 * here, compare what both processes say of themselves (Hello.self). */
static bool is_same(const struct session *old, const struct session *session)
{
	return process_is_same(&old->peer, &session->peer) ||
	       (old->disconnected && old->peer.pid <= 0 &&
		process_says_same(&old->peer, &session->peer));
}

/* The process may have other disconnected sessions without a pid, because their records come from
 * another pid namespace. Hello.self shows that they are of this process: give them this session's
 * peer, which has the pid. */
static void recognise(struct registry *registry, const struct session *session)
{
	for (struct session *old = registry->state.sessions.by_id; old; old = old->hh.next) {
		if (!old->disconnected || old->peer.pid > 0 ||
		    !process_says_same(&old->peer, &session->peer))
			continue;
		participant_see(old, &session->peer);
		state_see(&registry->state, old);
	}
}

/* Move all that the session with `key` has to `session`. false: no such session, or this peer may
 * not resume it. A client that stopped waiting for an answer connects again, and the registry may
 * handle the earlier hello last. Then the later connection keeps the session. */
static bool resume(struct registry *registry, struct session *session,
		   const uint8_t key[GPUSHARE_SESSION_KEY_SIZE])
{
	struct session *old = session_find_key(&registry->state.sessions, key);
	bool seen_anew;

	if (!old || old == session || old->peer.uid != session->peer.uid ||
	    !is_same(old, session) || !session_has_nothing(session) || session->record_slot)
		return false;
	if (!old->disconnected && old->id > session->id)
		return false;
	seen_anew = old->peer.pid != session->peer.pid;
	move_all(old, session);
	old->given_up = true;
	if (seen_anew) {
		recognise(registry, session);
		state_see(&registry->state, session);
	}
	log_line("resumed: uid %u pid %d (%s)", session->peer.uid, session->peer.pid,
		 session->peer.command);
	if (old->disconnected) {
		watch_remove(old->watch);
		session_free(&registry->state.sessions, old);
	}
	return true;
}

int handle_hello(struct call *call)
{
	const gpushare_Hello *hello = &call->ask->verb.hello;
	gpushare_HelloReply *body = &call->answer->body.hello;
	struct session *session = call->session;
	int status;

	if (hello->protocol != GPUSHARE_PROTOCOL)
		return refuse(
		    call, GPUSHARE_E_NOT_SUPPORTED,
		    "this registry (gpushare %s) speaks protocol %d, the client (%s) speaks "
		    "protocol %" PRIu32 "; install the same version on both sides",
		    GPUSHARE_VERSION, GPUSHARE_PROTOCOL, hello->client, hello->protocol);
	process_says(&session->peer, hello->self.pid_namespace, hello->self.pid,
		     hello->self.started);
	/* `more` is 0 because this connection is counted already. */
	status = check_limit(call, session->user, LIMIT_connections, 0);
	if (status)
		return status;
	session->greeted = true;
	body->resumed = resume(call->registry, session, hello->resume);
	memcpy(body->session, session->key, sizeof(session->key));
	body->connection = session->id;
	body->protocol = GPUSHARE_PROTOCOL;
	body->pid = getpid();
	snprintf(body->version, sizeof(body->version), "%s", GPUSHARE_VERSION);
	call_log(call, "hello", "%s", hello->client);
	return GPUSHARE_OK;
}

int handle_subscribe(struct call *call)
{
	gpushare_SubscribeReply *body = &call->answer->body.subscribe;
	struct events *events = &call->registry->events;
	struct session *session = call->session;
	int status;

	if (session->subscribe)
		return refuse(call, GPUSHARE_E_INVALID,
			      "this connection already waits for notices; subscribe again after "
			      "that answer");
	if (session->watches)
		return events_take(events, session, body) ? GPUSHARE_OK : HANDLE_LISTEN;
	status = check_limit(call, session->user, LIMIT_watchers, 1);
	if (!status)
		status = events_enter(events, session);
	if (status)
		return status;
	body->notices_count = 1;
	body->notices[0] = (notice){.serial = events->serial,
				    .unix_ns = call->state->unix_ns,
				    .registry = events->registry};
	return GPUSHARE_OK;
}

/* Begin a round, in which no entry or attachment counts as mentioned so far. New shares and
 * attachments during the round count as mentioned. */
static void begin(struct session *session, bool first)
{
	if (session->resyncing && !first)
		return;
	session->resyncing = true;
	session->round++;
	session->heard = 0;
}

/* The entry is checked in this round: put it after those that are not checked. */
static void pass_by(struct session *session, struct entry *entry)
{
	DL_DELETE(session->entries, entry);
	DL_APPEND(session->entries, entry);
	entry->synced = session->round;
}

static void want(const struct call *call, const gpushare_Hold *hold)
{
	gpushare_ResyncReply *body = &call->answer->body.resync;

	body->wanted[body->wanted_count++] = hold->generation;
}

static void sync_shared(const struct call *call, const gpushare_Hold *hold)
{
	struct session *session = call->session;
	struct entry *entry = buffer_find(call->state, hold->name, hold->generation);

	/* If the buffer was unlinked, don't ask for it: it must not come back. If an earlier
	 * resync left it out (`unsynced`), ask for it, to give it its name back. */
	if (entry && entry->info.nameless) {
		if (entry->session != session || entry->info.unsynced)
			want(call, hold);
		return;
	}
	if (entry && !entry->session && entry_owner(entry)->uid == session->peer.uid &&
	    process_is_same(entry_owner(entry), &session->peer))
		buffer_return(call->state, entry, session, entry->info.flags, entry->info.ttl_s);
	if (!entry || entry->session != session || entry->info.missing)
		want(call, hold);
	if (entry && entry->session == session)
		pass_by(session, entry);
}

/* Whether the session may claim an attachment that the registry doesn't know. A known buffer needs
 * its name and the right to read. With --system, nobody may claim an unknown buffer: a client could
 * attach another user's buffer this way. */
static bool may_hold(const struct call *call, const gpushare_Hold *hold, const struct entry *entry)
{
	if (!entry)
		return !call->registry->is_system;
	return !strcmp(entry->name, hold->name) && access_of(call->session, entry) & ACCESS_READ;
}

static int sync_attached(const struct call *call, const gpushare_Hold *hold)
{
	struct registry *registry = call->registry;
	struct session *session = call->session;
	const struct entry *entry = store_find_generation(&call->state->store, hold->generation);
	const struct attachment *before = session_find_attachment(session, hold->generation);
	unsigned int had = before ? before->count : 0;
	struct attachment *attachment;
	int status;

	if (!hold->count || !hold->generation || (!before && !may_hold(call, hold, entry)))
		return GPUSHARE_OK;
	status = check_limit(call, session->user, LIMIT_attachments,
			     hold->count > had ? hold->count - had : 0);
	if (status)
		return status;
	attachment = buffer_attach(call->state, session, hold->name, hold->generation, hold->count);
	if (!attachment)
		return GPUSHARE_E_NO_MEMORY;
	attachment->synced = session->round;
	if (entry ? entry->info.missing
		  : !store_find(&registry->state.store, hold->name) &&
			!buffer_has_gone(call->state, hold->name, hold->generation))
		want(call, hold);
	return GPUSHARE_OK;
}

/* Remove what the client did not mention, for the time of one piece (os/clock.h). false: there is
 * more. */
static bool end(const struct call *call)
{
	struct session *session = call->session;
	struct piece piece = piece_begin();
	struct attachment *attachment;
	struct entry *entry;

	while ((entry = session->entries) && entry->synced != session->round) {
		if (piece_is_over(&piece))
			return false;
		pass_by(session, entry);
		if (entry->info.nameless)
			continue;
		/* The client has freed the buffer, or another of its threads is about to send a
		 * Withdraw. Keep the record (`unsynced`), so that this Withdraw can still defer the
		 * free. */
		call_log(call, "withdraw", "\"%s\": no longer reported after a reconnect",
			 entry->name);
		withdraw(call, entry, true, true);
	}
	while ((attachment = session_next(session, session->heard))) {
		if (piece_is_over(&piece))
			return false;
		session->heard = attachment->generation;
		if (attachment->synced != session->round)
			buffer_attach(call->state, session, attachment->name,
				      attachment->generation, 0);
	}
	session->resyncing = false;
	return true;
}

/* Never give another buffer a generation that a client names, even if its record was lost. With
 * --system, ignore such generations: a client could use up the numbers of all users. */
static int pass(const struct call *call, const gpushare_Hold *holds, pb_size_t count)
{
	for (pb_size_t i = 0; i < count; i++) {
		int status = check_generation(call, holds[i].name, holds[i].generation);

		if (status)
			return status;
		if (!call->registry->is_system)
			generation_pass(call->state, holds[i].generation);
	}
	return GPUSHARE_OK;
}

int handle_resync(struct call *call)
{
	const gpushare_Resync *resync = &call->ask->verb.resync;
	int status = pass(call, resync->shared, resync->shared_count);

	if (!status)
		status = pass(call, resync->attached, resync->attached_count);
	if (status)
		return status;
	begin(call->session, resync->first && !call->again);
	for (pb_size_t i = 0; i < resync->shared_count; i++)
		sync_shared(call, &resync->shared[i]);
	for (pb_size_t i = 0; !status && i < resync->attached_count; i++)
		status = sync_attached(call, &resync->attached[i]);
	return status || !resync->last || end(call) ? status : HANDLE_MORE;
}
