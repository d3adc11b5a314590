/* SPDX-License-Identifier: MIT */
#include "server/connection.h"

#include <inttypes.h>
#include <nng/transport/ipc/ipc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"
#include "server/ask.h"
#include "quota.h"

/* Nothing more is asked of who has so many bytes of answers to read; or any, where its user has as many. */
#define UNREAD_MOST (64 << 10)
#define UNREAD_OF_USER (16 << 20)

/* A request as it came. */
struct frame {
	uint8_t ids[SP_IDS_MAX];
	size_t ids_size;
	const uint8_t *body;
	size_t size;
	size_t whole; /* bytes of the frame */
};

/* Under the lock. */
static void list(struct connection *connection, struct connection **todo)
{
	if (connection->listed)
		return;
	connection->listed = true;
	connection->next_todo = *todo;
	*todo = connection;
}

void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size, struct connection **todo)
{
	/* A Reply that says E_NO_MEMORY and no more. */
	static const uint8_t no_memory[] = {gpushare_Reply_status_tag << 3,
					    -GPUSHARE_E_NO_MEMORY * 2 - 1};
	struct bytes *pending = &connection->pending;
	uint8_t header[SP_HEADER_SIZE];

	if (connection->ended)
		return;
	if (!bytes_reserve(pending, sizeof(header) + ids_size + size)) {
		answer = no_memory;
		size = sizeof(no_memory);
		if (!bytes_reserve(pending, sizeof(header) + ids_size + size)) {
			connection->failed = true;
			list(connection, todo);
			return;
		}
	}
	sp_length(header, ids_size + size);
	bytes_append(pending, header, sizeof(header));
	bytes_append(pending, ids, ids_size);
	bytes_append(pending, answer, size);
	connection->user->unread += sizeof(header) + ids_size + size;
	list(connection, todo);
}

/* Under the lock. */
static void end(struct connection *connection)
{
	struct session *session =
	    session_find(&connection->server->registry->sessions, connection->id);

	connection->ended = true;
	if (session)
		server_end_session(connection->server, session);
}

void connection_end(struct connection *connection, struct connection **todo)
{
	if (connection->ended)
		return;
	end(connection);
	list(connection, todo);
}

void connection_go_on(struct connection *connection, struct connection **todo)
{
	connection->in_pieces--;
	list(connection, todo);
}

/* Under the lock: nothing of it is in other hands. */
static bool is_over(const struct connection *connection)
{
	return connection->closing && !connection->receiving && !connection->sending &&
	       !connection->listed;
}

/* Under the lock. */
static size_t unread(const struct connection *connection)
{
	return connection->pending.size + connection->out.size - connection->out_at;
}

/* Under the lock, once it is over; it is freed without the lock. */
static void forget(struct connection *connection)
{
	struct server *server = connection->server;

	connection->user->unread -= unread(connection);
	user_closes(connection->user);
	DL_DELETE(server->connections, connection);
	if (!server->connections)
		pthread_cond_broadcast(&server->none);
}

static void free_connection(struct connection *connection)
{
	nng_stream_free(connection->stream);
	for (int i = 0; i < 3; i++) {
		nng_aio *aio =
		    (nng_aio *[]){connection->in_aio, connection->out_aio, connection->now_aio}[i];

		if (aio)
			nng_aio_reap(aio); /* this may be its callback */
	}
	pthread_mutex_destroy(&connection->io);
	free(connection->in.at);
	free(connection->out.at);
	free(connection->pending.at);
	free(connection);
}

/* Under the lock. */
static bool may_receive(const struct connection *connection)
{
	size_t left = unread(connection);

	return !connection->in_pieces && left < UNREAD_MOST &&
	       (!left || connection->user->unread < UNREAD_OF_USER);
}

/* Of what is closed. */
static void let_go(struct connection *connection, bool *owned, struct connection **todo)
{
	registry_lock(connection->server->registry);
	*owned = false;
	list(connection, todo);
	registry_unlock(connection->server->registry);
}

/* Milliseconds until that much time has passed since then. */
static nng_duration left_ms(const struct connection *connection, int64_t since_ns)
{
	int left = clock_timeout_ms(since_ns + connection->server->registry->limits.silent_ns);

	return left > 0 ? left : 1;
}

/* nng 1.5.2 never ends what is begun on a stream that is closed already: then `io` does nothing, and false
 * is returned. */
static bool begin_io(struct connection *connection, void (*io)(nng_stream *, nng_aio *),
		     nng_aio *aio)
{
	bool begun;

	pthread_mutex_lock(&connection->io);
	begun = !connection->closed;
	if (begun)
		io(connection->stream, aio);
	pthread_mutex_unlock(&connection->io);
	return begun;
}

static void close_stream(struct connection *connection)
{
	pthread_mutex_lock(&connection->io);
	connection->closed = true;
	nng_stream_close(connection->stream);
	pthread_mutex_unlock(&connection->io);
}

static void set_out(struct connection *connection, nng_aio *aio)
{
	nng_iov part = {.iov_buf = connection->out.at + connection->out_at,
			.iov_len = connection->out.size - connection->out_at};

	nng_aio_set_iov(aio, 1, &part);
}

/* So much was sent, and it is in nobody's hands. */
static void sent(struct connection *connection, int result, size_t count, struct connection **todo)
{
	struct registry *registry = connection->server->registry;

	registry_lock(registry);
	connection->out_at += count;
	connection->user->unread -= count;
	if (result == NNG_ETIMEDOUT && !connection->ended) {
		registry->counts.drops[DROP_deaf]++;
		log_line("dropped: uid %u, it did not read", connection->uid);
	}
	connection->sending = false;
	if (result)
		connection_end(connection, todo);
	if (connection->ended || connection->held || unread(connection))
		list(connection, todo);
	registry_unlock(registry);
}

/* What the socket takes at once takes no callback, which another thread would have to be woken for. */
static void send_out(struct connection *connection, struct connection **todo)
{
	nng_aio *now = connection->now_aio, *later = connection->out_aio;
	int result = NNG_ECLOSED;

	set_out(connection, now);
	if (begin_io(connection, nng_stream_send, now)) {
		nng_aio_cancel(now);
		nng_aio_wait(now);
		result = nng_aio_result(now);
	}
	if (result != NNG_ECANCELED) {
		sent(connection, result, result ? 0 : nng_aio_count(now), todo);
		return;
	}
	set_out(connection, later);
	nng_aio_set_timeout(later, left_ms(connection, connection->out_since_ns));
	if (!begin_io(connection, nng_stream_send, later))
		sent(connection, NNG_ECLOSED, 0, todo);
}

static void receive(struct connection *connection, struct connection **todo)
{
	struct bytes *in = &connection->in;
	nng_iov part = {.iov_buf = in->at + in->size, .iov_len = in->room - in->size};

	nng_aio_set_iov(connection->in_aio, 1, &part);
	nng_aio_set_timeout(connection->in_aio, connection->begun_ns
						    ? left_ms(connection, connection->begun_ns)
						    : NNG_DURATION_INFINITE);
	if (!begin_io(connection, nng_stream_recv, connection->in_aio))
		let_go(connection, &connection->receiving, todo);
}

/* 1: there is one; 0: it has not ended; -1: that is none. */
static int next_frame(const struct connection *connection, struct frame *frame)
{
	const uint8_t *at = connection->in.at + connection->in_at;
	size_t size = connection->in.size - connection->in_at;
	long length;

	if (size < SP_HEADER_SIZE)
		return 0;
	length = sp_header_body_size(at);
	if (length < 0)
		return -1;
	frame->whole = SP_HEADER_SIZE + SP_ID_SIZE + (size_t)length;
	if (size < frame->whole)
		return 0;
	frame->ids_size = sp_ids_size(at + SP_HEADER_SIZE, frame->whole - SP_HEADER_SIZE);
	if (!frame->ids_size || frame->ids_size > SP_IDS_MAX)
		return -1;
	memcpy(frame->ids, at + SP_HEADER_SIZE, frame->ids_size);
	frame->body = at + SP_HEADER_SIZE + frame->ids_size;
	frame->size = frame->whole - SP_HEADER_SIZE - frame->ids_size;
	return 1;
}

/* Room for the rest of what has begun, of which no more is taken than came. false: no memory. */
static bool make_room(struct connection *connection)
{
	bytes_skip(&connection->in, connection->in_at);
	connection->in_at = 0;
	return bytes_reserve(&connection->in, 1);
}

/* For one more connection, if only to hear that it is one too many. */
static bool has_room(struct registry *registry, const struct user *user)
{
	const struct limits *limits = &registry->limits;

	return user->held[LIMIT_connections] < limits->of_user[LIMIT_connections] + limits->spare &&
	       registry->users.held[LIMIT_connections] < limits->connections + limits->spare &&
	       registry->users.held[LIMIT_connections] + registry->fdtable.count < limits->together;
}

/* Who greets has a session. false: one too many. */
static bool welcome(struct connection *connection)
{
	struct server *server = connection->server;
	struct registry *registry = server->registry;
	struct session *session = NULL;
	struct process peer;
	struct identity who;
	int watch;

	process_read(connection->pid, connection->uid, &peer);
	identity_read(&who, &peer, connection->gid);
	watch = watch_add(server->watches, peer.pid, connection->id);
	registry_lock(registry);
	server->connected++;
	if (!connection->ended && has_room(registry, connection->user)) {
		session = registry_connect(registry, connection->id, &peer);
	} else if (!connection->ended) {
		registry->counts.drops[DROP_crowd]++;
		audit_refused(&registry->audit, &peer, "connect", GPUSHARE_E_LIMIT);
	}
	if (session) {
		session->connection = connection;
		session->watch = watch;
		session->who = who;
		server->idle_since_ns = INT64_MAX;
	}
	registry_unlock(registry);
	if (session)
		return true;
	watch_remove(watch);
	identity_finish(&who);
	return false;
}

/* 1: it has greeted; 0: more is to come; -1: not as nng's REQ does, or there is one too many. */
static int take_greeting(struct connection *connection)
{
	if (connection->greeted)
		return 1;
	if (connection->in.size < SP_GREETING_SIZE)
		return 0;
	if (!sp_greeting_is(connection->in.at, SP_REQ) || !welcome(connection))
		return -1;
	connection->in_at = SP_GREETING_SIZE;
	connection->greeted = true;
	return 1;
}

/* false: it is held, and others have it from here on. */
static bool take_frame(struct connection *connection, const struct frame *frame,
		       struct connection **todo)
{
	struct registry *registry = connection->server->registry;
	struct ask ask;
	bool goes_on;

	ask_begin(&ask, connection, frame->ids, frame->ids_size);
	question_read(&ask.question, frame->body, frame->size, connection->uid, true);
	connection->in_at += frame->whole;
	connection->begun_ns = 0;
	connection->asked = true;
	registry_lock(registry);
	ask_handle(&ask, todo);
	goes_on = connection->ended || may_receive(connection);
	connection->held = !goes_on;
	connection->receiving = goes_on;
	registry_unlock(registry);
	return goes_on;
}

static void drop(struct connection *connection, int why, struct connection **todo)
{
	struct registry *registry = connection->server->registry;

	registry_lock(registry);
	connection->receiving = false;
	if (why != DROP_KINDS && !connection->ended) {
		registry->counts.drops[why]++;
		log_line("dropped: uid %u, %s", connection->uid,
			 why == DROP_silent ? "it said nothing" : "it did not end its message");
	}
	connection_end(connection, todo);
	list(connection, todo); /* it may be the last hand */
	registry_unlock(registry);
}

/* All that came is looked at, by who receives. true: who is to receive more, when answers are on their way. */
static bool take_in(struct connection *connection, struct connection **todo)
{
	struct frame frame;
	int state = take_greeting(connection);

	while (state > 0 && (state = next_frame(connection, &frame)) > 0) {
		if (!take_frame(connection, &frame, todo))
			return false;
	}
	if (state < 0 || !make_room(connection)) {
		drop(connection, DROP_KINDS, todo);
		return false;
	}
	if (!connection->begun_ns && connection->in.size)
		connection->begun_ns = clock_ns();
	return true;
}

static void on_received(void *argument)
{
	struct connection *connection = argument, *todo = NULL;
	int result = nng_aio_result(connection->in_aio);

	if (result) {
		drop(connection,
		     result != NNG_ETIMEDOUT ? DROP_KINDS
		     : connection->asked     ? DROP_half
					     : DROP_silent,
		     &todo);
	} else {
		connection->in.size += nng_aio_count(connection->in_aio);
		if (take_in(connection, &todo)) {
			connections_run(todo);
			todo = NULL;
			receive(connection, &todo);
		}
	}
	connections_run(todo);
}

static void on_sent(void *argument)
{
	struct connection *connection = argument, *todo = NULL;
	int result = nng_aio_result(connection->out_aio);

	sent(connection, result, result ? 0 : nng_aio_count(connection->out_aio), &todo);
	connections_run(todo);
}

/* Under the lock: what is to be sent next. false: nothing, or it is being sent. */
static bool fill_out(struct connection *connection)
{
	struct bytes sent = connection->out;

	if (connection->sending || connection->ended)
		return false;
	if (connection->out_at == connection->out.size) {
		bytes_skip(&sent, sent.size);
		connection->out = connection->pending;
		connection->pending = sent;
		connection->out_at = 0;
		connection->out_since_ns = clock_ns();
	}
	connection->sending = connection->out.size;
	return connection->sending;
}

/* What is to be done with one that was listed. */
static void run(struct connection *connection, struct connection **todo)
{
	struct registry *registry = connection->server->registry;
	bool closes, sends, goes_on = false, is_last;

	registry_lock(registry);
	if (connection->failed && !connection->ended) {
		log_line("no memory for an answer: pid %d is let go of", connection->pid);
		end(connection);
	}
	closes = connection->ended && !connection->closing;
	connection->closing |= closes;
	sends = fill_out(connection);
	if (connection->held && !connection->ended && may_receive(connection)) {
		connection->held = false;
		connection->receiving = goes_on = true;
	}
	connection->listed = closes; /* not to be freed before it is closed */
	is_last = is_over(connection);
	if (is_last)
		forget(connection);
	registry_unlock(registry);

	if (is_last)
		free_connection(connection);
	if (sends)
		send_out(connection, todo);
	if (goes_on && take_in(connection, todo))
		receive(connection, todo);
	if (!closes)
		return;
	close_stream(connection);
	let_go(connection, &connection->listed, todo);
}

void connections_run(struct connection *todo)
{
	while (todo) {
		struct connection *connection = todo;

		/* `listed` is still set: nobody else puts it on a list before run() */
		todo = connection->next_todo;
		run(connection, &todo);
	}
}

/* Whom it is of; false: nobody that is served. */
static bool identify(struct connection *connection)
{
	struct registry *registry = connection->server->registry;
	uint64_t pid = 0, uid = 0, gid = IDENTITY_NO_GROUP;
	struct process peer;

	if (nng_stream_get_uint64(connection->stream, NNG_OPT_IPC_PEER_UID, &uid) ||
	    nng_stream_get_uint64(connection->stream, NNG_OPT_IPC_PEER_GID, &gid) ||
	    nng_stream_get_uint64(connection->stream, NNG_OPT_IPC_PEER_PID, &pid))
		return false;
	connection->pid = (int32_t)pid;
	connection->uid = (uint32_t)uid;
	connection->gid = (uint32_t)gid;
	if (uid == geteuid() || registry->is_system)
		return true;
	log_line("refused: uid %" PRIu64 " pid %" PRIu64, uid, pid);
	process_read(connection->pid, connection->uid, &peer);
	registry_lock(registry);
	registry->counts.drops[DROP_stranger]++;
	audit_refused(&registry->audit, &peer, "connect", GPUSHARE_E_DENIED);
	registry_unlock(registry);
	return false;
}

static bool make(struct connection *connection)
{
	uint8_t greeting[SP_GREETING_SIZE];

	if (!bytes_begin(&connection->in) || !bytes_begin(&connection->out) ||
	    !bytes_begin(&connection->pending) ||
	    nng_aio_alloc(&connection->in_aio, on_received, connection) ||
	    nng_aio_alloc(&connection->out_aio, on_sent, connection) ||
	    nng_aio_alloc(&connection->now_aio, NULL, NULL))
		return false;
	sp_greeting(greeting, SP_REP);
	bytes_append(&connection->out, greeting, sizeof(greeting));
	connection->out_since_ns = connection->begun_ns = clock_ns();
	return true;
}

/* Among its user's, and the server's. false: one too many, or none is taken any more. */
static bool enter(struct connection *connection)
{
	struct server *server = connection->server;
	struct registry *registry = server->registry;

	registry_lock(registry);
	connection->user = server->closing ? NULL : user_opens(registry, connection->uid);
	if (connection->user) {
		connection->id = server_next_id(server);
		connection->user->unread += connection->out.size;
		connection->receiving = connection->sending = true;
		DL_APPEND(server->connections, connection);
	}
	registry_unlock(registry);
	return connection->user;
}

void connection_open(struct server *server, nng_stream *stream)
{
	struct connection *connection = calloc(1, sizeof(*connection)), *todo = NULL;

	if (!connection) {
		nng_stream_free(stream);
		return;
	}
	pthread_mutex_init(&connection->io, NULL);
	connection->server = server;
	connection->stream = stream;
	if (!identify(connection) || !make(connection) || !enter(connection)) {
		nng_stream_close(stream); /* nng frees it some time */
		free_connection(connection);
		return;
	}
	send_out(connection, &todo);
	receive(connection, &todo);
	connections_run(todo);
}
