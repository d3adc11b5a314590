/* SPDX-License-Identifier: MIT */
#include "server/ask.h"

#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "os/log.h"
#include "server/connection.h"
#include "state/session.h"

bool ask_read(struct ask *ask, const uint8_t *bytes, size_t size)
{
	const gpushare_Share *share = &ask->request.verb.share;

	ask->size = size;
	ask->fault = codec_decode_request(bytes, size, &ask->request);
	ask->group = (struct identity_group){GPUSHARE_E_IO, IDENTITY_NO_GROUP};
	ask->waits = 0;
	ask->audited = ask->ready = false;
	if (ask->fault || ask->request.which_verb != gpushare_Request_share_tag || !*share->group)
		return false;
	if (!name_is_number(share->group))
		return true;
	identity_find_group(share->group, &ask->group);
	return false;
}

/* If this was a share or a commit, the name in it may now be visible. Resume the requests that wait
 * for this name, if their peers may see it. Write one audit line for each of the others. */
static void show(struct registry *registry, const struct ask *shown)
{
	const char *name = request_name(&shown->request);
	const struct entry *entry;
	struct ask *ask;

	if (shown->request.which_verb != gpushare_Request_share_tag &&
	    shown->request.which_verb != gpushare_Request_commit_tag)
		return;
	entry = store_find(&registry->state.store, name);
	if (!entry || entry->info.missing)
		return;
	DL_FOREACH (registry->asks, ask) {
		if (ask->waits != HANDLE_WAIT || strcmp(request_name(&ask->request), name) != 0)
			continue;
		if (!access_sees(ask->session, entry)) {
			ask->audited = ask->audited ||
				       audit_wait(&registry->audit, ask->session, &ask->request);
			continue;
		}
		ask->ready = registry->due = true;
	}
}

int ask_serve(struct registry *registry, struct ask *ask)
{
	int status = handle_request(registry, ask);

	if (!status)
		show(registry, ask);
	return status;
}

size_t ask_encode(struct registry *registry, uint8_t *to, size_t room)
{
	size_t size = 0;

	if (codec_encode_reply(&registry->reply, to, room, &size)) {
		log_line("can't encode an answer; the client gets \"out of memory\" instead");
		registry->reply = (reply){0};
		registry->reply.status = explain(&registry->reply, GPUSHARE_E_NO_MEMORY,
						 "the registry is out of memory");
		codec_encode_reply(&registry->reply, to, room, &size);
	}
	return size;
}

static bool must_wait(int status)
{
	return status == HANDLE_WAIT || status == HANDLE_MORE || status == HANDLE_LISTEN;
}

/* Put the request into the list of parked requests (`in`), or take it out. */
static void move(struct registry *registry, struct ask *ask, bool in)
{
	if (in)
		DL_APPEND(registry->asks, ask);
	else
		DL_DELETE(registry->asks, ask);
	ask->connection->parked += in ? 1u : -1u;
	if (ask->waits == HANDLE_LISTEN)
		ask->session->subscribe = in ? ask : NULL;
	else if (ask->waits == HANDLE_MORE)
		ask->connection->in_pieces = in;
	else
		(in ? user_add : user_take)(ask->session->user, LIMIT_waiters, 1);
}

/* Whether the request repeats a parked one: after a minute without an answer, nng's REQ sends a
 * request again. If so, count it. */
static bool is_parked(const struct registry *registry, const struct ask *one)
{
	const struct ask *ask;

	if (!one->connection->parked)
		return false;
	DL_FOREACH (registry->asks, ask) {
		if (ask->session == one->session && ask->ids_size == one->ids_size &&
		    !memcmp(ask->ids, one->ids, one->ids_size)) {
			user_count(one->session->user, requests);
			return true;
		}
	}
	return false;
}

/* When to resume the request; INT64_MAX: only when an event makes it ready. */
static int64_t due_ns(const struct registry *registry, const struct ask *ask)
{
	if (ask->waits == HANDLE_LISTEN)
		return ask->session->passed < registry->events.serial ? 0 : INT64_MAX;
	return ask->ready ? 0 : ask->due_ns;
}

/* Answer and free the request, or park it. Returns when to resume it. INT64_MAX: it was answered,
 * or it waits for an event. */
static int64_t settle(struct registry *registry, struct ask *ask, int status)
{
	if (!must_wait(status)) {
		size_t size = ask_encode(registry, registry->wire, sizeof(registry->wire));

		connection_answer(ask->connection, ask->ids, ask->ids_size, registry->wire, size);
		free(ask);
		return INT64_MAX;
	}
	ask->waits = status;
	ask->ready = false;
	if (status == HANDLE_MORE)
		ask->due_ns = clock_ns() + PIECE_NS;
	move(registry, ask, true);
	return due_ns(registry, ask);
}

void ask_handle(struct registry *registry, struct ask *ask)
{
	int status;

	if (!ask->session || registry->leaving || is_parked(registry, ask)) {
		free(ask);
		return;
	}
	status = ask_serve(registry, ask);
	if (status == HANDLE_WAIT) {
		ask->audited = audit_wait(&registry->audit, ask->session, &ask->request);
		ask->due_ns = clock_ns() + handle_wait_ms(&ask->request) * NS_PER_MS;
	}
	registry->due |= must_wait(status);
	settle(registry, ask, status);
}

static int64_t resume(struct registry *registry, struct ask *ask)
{
	int status = GPUSHARE_E_TIMED_OUT;

	move(registry, ask, false);
	if (ask->waits == HANDLE_WAIT && !ask->ready)
		handle_timeout(registry, ask);
	else
		status = ask_serve(registry, ask);
	return settle(registry, ask, status);
}

int64_t asks_resume(struct registry *registry)
{
	struct piece piece = piece_begin();
	int64_t next_ns = INT64_MAX, now_ns = clock_ns();
	struct ask *ask, *after;

	registry->events.news = false; /* from now on, a new notice wakes the main loop */
	DL_FOREACH_SAFE (registry->asks, ask, after) {
		int64_t ask_ns = due_ns(registry, ask);

		if (ask_ns <= now_ns) {
			/* requests that this call resumed come after it */
			if (piece_is_over(&piece))
				return clock_ns() + PIECE_NS;
			ask_ns = resume(registry, ask);
		}
		next_ns = ask_ns < next_ns ? ask_ns : next_ns;
	}
	return next_ns;
}

void asks_drop(struct registry *registry, const struct session *session)
{
	struct ask *ask, *after;

	if (!session->connection || !session->connection->parked)
		return;
	DL_FOREACH_SAFE (registry->asks, ask, after) {
		if (ask->session == session) {
			move(registry, ask, false);
			free(ask);
		}
	}
}
