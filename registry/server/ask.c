/* SPDX-License-Identifier: MIT */
#include "server/ask.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "state/access.h"
#include "os/clock.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "os/piece.h"

static struct registry *registry_of(const struct ask *ask)
{
	return ask->connection->server->registry;
}

size_t question_encode(struct registry *registry, uint8_t *to, size_t room)
{
	reply *answer = &registry->reply;
	size_t size = 0;

	if (codec_encode_reply(answer, to, room, &size)) {
		log_line("an answer could not be made");
		*answer = (reply){.status = GPUSHARE_E_NO_MEMORY};
		codec_encode_reply(answer, to, room, &size);
	}
	return size;
}

static void answer(const struct ask *ask, struct connection **todo)
{
	struct registry *registry = registry_of(ask);
	size_t size = question_encode(registry, registry->wire, sizeof(registry->wire));

	connection_answer(ask->connection, ask->ids, ask->ids_size, registry->wire, size, todo);
}

static void ask_free(struct ask *ask)
{
	if (!ask)
		return;
	free(ask->list_rest);
	free(ask);
}

void ask_drop(struct waiter *waiter)
{
	ask_free(waiter->work);
}

void asks_drop_watch(struct watcher *watcher)
{
	ask_free(watcher->ask);
	watcher->ask = NULL;
}

/* One that goes on later. NULL: no memory, and it is answered. */
static struct ask *keep(const struct ask *ask, struct connection **todo)
{
	struct ask *kept = malloc(sizeof(*kept));

	if (kept) {
		*kept = *ask;
		return kept;
	}
	registry_of(ask)->reply = (reply){.status = GPUSHARE_E_NO_MEMORY};
	answer(ask, todo);
	return NULL;
}

static void park(const struct ask *ask, struct session *session, bool more,
		 struct connection **todo)
{
	struct registry *registry = registry_of(ask);
	struct ask *kept = keep(ask, todo);

	if (!kept)
		return;
	kept->waiter = (struct waiter){
	    .session = session,
	    .ask = &kept->question.request,
	    .work = kept,
	    .audited = audit_wait(&registry->audit, session, &kept->question.request),
	    .more = more,
	    .deadline_ns =
		more ? INT64_MAX : clock_ns() + handle_wait_ms(&kept->question.request) * NS_PER_MS,
	};
	kept->connection->in_pieces += more;
	registry_park(registry, &kept->waiter);
	eventfd_write(registry->wake, 1); /* a deadline more */
}

void ask_serve(struct ask *ask, struct connection **todo)
{
	struct registry *registry = registry_of(ask);
	struct session *session = ask->waiter.session;

	registry_unpark(registry, &ask->waiter);
	if (handle_again(registry, session, &ask->question.request, &registry->reply) ==
	    HANDLE_MORE) {
		registry_park(registry, &ask->waiter);
		return;
	}
	answer(ask, todo);
	if (ask->waiter.more)
		connection_go_on(ask->connection, todo);
	ask_free(ask);
}

void asks_time_out(struct registry *registry, int64_t now_ns, struct connection **todo)
{
	struct waiter *waiter, *after;

	DL_FOREACH_SAFE(registry->waiters, waiter, after)
	{
		struct ask *ask = waiter->work;

		if (waiter->deadline_ns > now_ns)
			continue;
		registry_unpark(registry, waiter);
		handle_timeout(registry, waiter->session, &ask->question.request, &registry->reply);
		answer(ask, todo);
		ask_free(ask);
	}
}

/* So long the user's next list waits. */
static int64_t list_due_ns(const struct user *user)
{
	return user->lists_ns - LIMIT_LISTS_AHEAD_MS * NS_PER_MS;
}

/* The user's next list waits for as long as this one takes, in time of the CPU: the time in which the
 * process was stopped does not count. false: it is half made. */
static bool make_list(struct ask *ask, struct session *session, struct connection **todo)
{
	struct registry *registry = registry_of(ask);
	struct user *user = session->user;
	int64_t now_ns = clock_ns(), began_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	int status;

	registry->list_rest = ask->list_rest;
	status = (ask->list_rest ? handle_again : handle_request)(
	    registry, session, &ask->question.request, &registry->reply);
	ask->list_rest = registry->list_rest;
	registry->list_rest = NULL;
	if (status != HANDLE_MORE)
		answer(ask, todo);
	if (user->lists_ns < now_ns)
		user->lists_ns = now_ns;
	user->lists_ns += 2 * (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
	return status != HANDLE_MORE;
}

static void queue_list(struct user *user, struct ask *ask)
{
	DL_APPEND(user->lists, ask);
	user->list_count++;
}

static struct ask *unqueue_list(struct user *user, struct ask *ask)
{
	DL_DELETE(user->lists, ask);
	user->list_count--;
	return ask;
}

static void handle_list(struct ask *ask, struct session *session, struct connection **todo)
{
	struct user *user = session->user;
	struct ask *kept;

	if ((handle_refuses_lists(user) || (!user->lists && list_due_ns(user) <= clock_ns())) &&
	    make_list(ask, session, todo))
		return;
	kept = keep(ask, todo);
	if (!kept) {
		free(ask->list_rest);
		return;
	}
	queue_list(user, kept);
	eventfd_write(registry_of(ask)->wake, 1);
}

/* As many of the user's lists as fit into its time. */
static void list_due(struct registry *registry, struct user *user, struct connection **todo)
{
	while (user->lists && list_due_ns(user) <= clock_ns()) {
		struct ask *ask = unqueue_list(user, user->lists);
		struct session *session = session_find(&registry->sessions, ask->connection->id);

		if (session && !registry->leaving && !make_list(ask, session, todo))
			queue_list(user, ask);
		else
			ask_free(ask);
	}
}

int64_t asks_list(struct registry *registry, struct connection **todo)
{
	int64_t next_ns = INT64_MAX;

	for (struct user *user = registry->users.by_uid; user; user = user->hh.next) {
		list_due(registry, user, todo);
		if (user->lists && list_due_ns(user) < next_ns)
			next_ns = list_due_ns(user);
	}
	return next_ns;
}

static void notify(struct watcher *watcher, struct connection **todo)
{
	struct ask *ask = watcher->ask;
	struct registry *registry = registry_of(ask);

	watcher->ask = NULL;
	handle_again(registry, watcher->session, &ask->question.request, &registry->reply);
	answer(ask, todo);
	ask_free(ask);
}

int64_t asks_notify(struct registry *registry, struct connection **todo)
{
	struct events *events = &registry->events;
	struct watcher *watcher, *after;
	struct piece piece = piece_begin();

	DL_FOREACH_SAFE(events->watchers, watcher, after)
	{
		if (!watcher->ask || !watcher->count)
			continue;
		if (piece_is_over(&piece))
			return clock_ns() + PIECE_NS;
		/* behind those who have not been told of it yet */
		DL_DELETE(events->watchers, watcher);
		DL_APPEND(events->watchers, watcher);
		notify(watcher, todo);
	}
	events->news = false;
	return INT64_MAX;
}

void asks_drop_lists(struct user *user, const struct connection *connection)
{
	struct ask *ask, *after;

	DL_FOREACH_SAFE(user->lists, ask, after)
	{
		if (ask->connection == connection)
			ask_free(unqueue_list(user, ask));
	}
}

void ask_begin(struct ask *ask, struct connection *connection, const uint8_t *ids, size_t ids_size)
{
	ask->connection = connection;
	memcpy(ask->ids, ids, ids_size);
	ask->ids_size = ids_size;
	ask->list_rest = NULL;
}

void question_read(struct question *question, const uint8_t *bytes, size_t size, uint32_t uid,
		   bool waits)
{
	const gpushare_Share *share = &question->request.verb.share;

	question->size = size;
	question->fault = codec_decode_request(bytes, size, &question->request);
	question->group = (struct identity_group){.gid = IDENTITY_NO_GROUP};
	if (question->fault || question->request.which_verb != gpushare_Request_share_tag ||
	    !*share->group)
		return;
	if (waits || name_is_number(share->group))
		identity_find_group(share->group, uid, &question->group);
	else
		question->group.status = GPUSHARE_E_IO;
}

int question_refuse(struct registry *registry, struct session *session,
		    const struct question *question)
{
	return handle_fault(registry, session, question->size, question->fault, &registry->reply);
}

/* Whoever waited for the name that was just shared, and may see it; the others wait on, and the audit says
 * so once. */
void question_shown(struct registry *registry, const struct question *question, int status,
		    struct connection **todo)
{
	bool shown = !status && handle_shows(&question->request);
	const char *name = request_name(&question->request);
	const struct entry *entry = shown ? store_find(&registry->store, name) : NULL;
	struct waiter *waiter, *after;

	if (!entry)
		return;
	DL_FOREACH_SAFE(registry->waiters, waiter, after)
	{
		if (entry->info.missing || waiter->more ||
		    strcmp(request_name(waiter->ask), name) != 0)
			continue;
		if (access_sees(waiter->session, entry))
			ask_serve(waiter->work, todo);
		else if (!waiter->audited)
			waiter->audited =
			    audit_wait(&registry->audit, waiter->session, waiter->ask);
	}
}

/* As nng's REQ does where no answer has come for a minute: this one is answered in its place. */
static bool is_said_again(const struct ask *ask, const struct session *session)
{
	const struct ask *before = session->watcher ? session->watcher->ask : NULL;

	return before && ask->question.request.which_verb == gpushare_Request_subscribe_tag &&
	       ask->ids_size == before->ids_size && !memcmp(ask->ids, before->ids, ask->ids_size);
}

void ask_handle(struct ask *ask, struct connection **todo)
{
	struct registry *registry = registry_of(ask);
	struct session *session = session_find(&registry->sessions, ask->connection->id);
	int status;

	if (!session || registry->leaving)
		return;
	registry->group = ask->question.group;
	if (question_refuse(registry, session, &ask->question)) {
		answer(ask, todo);
		return;
	}
	if (ask->question.request.which_verb == gpushare_Request_list_tag) {
		handle_list(ask, session, todo);
		return;
	}
	if (is_said_again(ask, session))
		asks_drop_watch(session->watcher);
	status = handle_request(registry, session, &ask->question.request, &registry->reply);
	if (status == HANDLE_LISTEN) {
		session->watcher->ask = keep(ask, todo);
		return;
	}
	if (status == HANDLE_WAIT || status == HANDLE_MORE) {
		park(ask, session, status == HANDLE_MORE, todo);
		return;
	}
	answer(ask, todo);
	question_shown(registry, &ask->question, status, todo);
}
