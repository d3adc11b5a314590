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

/* The registry doesn't read from a connection with so many bytes of unsent answers, or with any if its user has
 * UNREAD_OF_USER of them. */
#define UNREAD_MOST (64 << 10)
#define UNREAD_OF_USER (16 << 20)
#define ROOM_LEAST 512
#define ROOM_KEPT 4096	    /* of an empty buffer */
#define ID_MOST 0x7fffffffu /* higher ones are of sessions without a connection */

/* false: out of memory, nothing changed. */
static bool bytes_reserve(struct bytes *bytes, size_t more)
{
	size_t room = bytes->room ? bytes->room : ROOM_LEAST;
	uint8_t *at;

	while (room < bytes->size + more)
		room *= 2;
	if (room == bytes->room)
		return true;
	at = realloc(bytes->at, room);
	if (!at)
		return false;
	bytes->at = at;
	bytes->room = room;
	return true;
}

static void bytes_append(struct bytes *bytes, const void *from, size_t size)
{
	memcpy(bytes->at + bytes->size, from, size);
	bytes->size += size;
}

/* The first ones go. A large buffer that is empty then is given back. */
static void bytes_skip(struct bytes *bytes, size_t count)
{
	if (!count)
		return;
	bytes->size -= count;
	memmove(bytes->at, bytes->at + count, bytes->size);
	if (bytes->size || bytes->room <= ROOM_KEPT)
		return;
	free(bytes->at);
	*bytes = (struct bytes){0};
}

/* Under the lock. */
static void list(struct connection *connection)
{
	struct server *server = connection->server;

	if (connection->listed)
		return;
	connection->listed = true;
	connection->next_todo = server->todo;
	server->todo = connection;
}

void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size)
{
	/* A Reply with the status E_NO_MEMORY. */
	static const uint8_t no_memory[] = {gpushare_Reply_status_tag << 3,
					    -GPUSHARE_E_NO_MEMORY * 2 - 1};
	struct bytes *pending = &connection->pending;
	uint8_t header[SP_HEADER_SIZE];

	list(connection);
	if (!bytes_reserve(pending, sizeof(header) + ids_size + size)) {
		answer = no_memory;
		size = sizeof(no_memory);
		connection->failed |= !bytes_reserve(pending, sizeof(header) + ids_size + size);
	}
	if (connection->failed)
		return;
	sp_length(header, ids_size + size);
	bytes_append(pending, header, sizeof(header));
	bytes_append(pending, ids, ids_size);
	bytes_append(pending, answer, size);
	connection->user->unread += sizeof(header) + ids_size + size;
}

void connection_end(struct connection *connection)
{
	list(connection);
	if (connection->ended)
		return;
	connection->ended = true;
	if (connection->session)
		server_end_session(connection->server, connection->session);
}

/* Under the lock: the peer did not do its part in time. */
static void end_late(struct connection *connection, enum drop why)
{
	static const char *const sentences[DROP_KINDS] = {
	    [DROP_silent] = "it said nothing",
	    [DROP_half] = "it did not end its message",
	    [DROP_deaf] = "it did not read",
	};

	if (!connection->ended) {
		connection->server->registry->state.users.total.drops[why]++;
		log_line("dropped: uid %u, %s", connection->uid, sentences[why]);
	}
	connection_end(connection);
}

/* Under the lock. */
static size_t unread(const struct connection *connection)
{
	return connection->pending.size + connection->out.size - connection->out_at;
}

/* Under the lock. */
static bool may_receive(const struct connection *connection)
{
	size_t left = unread(connection);

	return !connection->ended && !connection->in_pieces && left < UNREAD_MOST &&
	       (!left || connection->user->unread < UNREAD_OF_USER);
}

static void free_connection(struct connection *connection)
{
	nng_aio *aios[] = {connection->in_aio, connection->out_aio, connection->now_aio};

	nng_stream_free(connection->stream);
	for (int i = 0; i < 3; i++) {
		if (aios[i])
			nng_aio_reap(aios[i]); /* this may be its callback */
	}
	pthread_mutex_destroy(&connection->io);
	free(connection->in.at);
	free(connection->out.at);
	free(connection->pending.at);
	free(connection);
}

/* nng 1.5.2 never ends an operation that starts on a closed stream. false: it is closed, nothing started. */
static bool begin_io(struct connection *connection, void (*io)(nng_stream *, nng_aio *),
		     nng_aio *aio, const struct bytes *bytes, size_t from, size_t to)
{
	nng_iov part = {.iov_buf = bytes->at + from, .iov_len = to - from};
	bool begun;

	nng_aio_set_iov(aio, 1, &part);
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

static void set_timeout(const struct connection *connection, nng_aio *aio, int64_t since_ns)
{
	int left =
	    clock_timeout_ms(since_ns + connection->server->registry->state.users.limits.silent_ns);

	nng_aio_set_timeout(aio, left > 0 ? left : 1);
}

/* An operation of sending is over. */
static void sent(struct connection *connection, int result, size_t count)
{
	struct registry *registry = connection->server->registry;

	registry_lock(registry);
	connection->out_at += count;
	connection->user->unread -= count;
	connection->sending = false;
	if (result == NNG_ETIMEDOUT)
		end_late(connection, DROP_deaf);
	else if (result)
		connection_end(connection);
	if (connection->ended || !connection->receiving || unread(connection))
		list(connection);
	registry_unlock(registry);
}

/* What the socket takes at once needs no callback, for which nng would wake another thread. */
static void send_out(struct connection *connection)
{
	struct bytes *out = &connection->out;
	nng_aio *now = connection->now_aio, *later = connection->out_aio;
	int result = NNG_ECLOSED;

	if (begin_io(connection, nng_stream_send, now, out, connection->out_at, out->size)) {
		nng_aio_cancel(now);
		nng_aio_wait(now);
		result = nng_aio_result(now);
	}
	if (result != NNG_ECANCELED) {
		sent(connection, result, result ? 0 : nng_aio_count(now));
		return;
	}
	set_timeout(connection, later, connection->out_since_ns);
	if (!begin_io(connection, nng_stream_send, later, out, connection->out_at, out->size))
		sent(connection, NNG_ECLOSED, 0);
}

static void on_sent(void *argument)
{
	struct connection *connection = argument;
	struct server *server = connection->server;
	int result = nng_aio_result(connection->out_aio);

	server->running++;
	sent(connection, result, result ? 0 : nng_aio_count(connection->out_aio));
	connections_run(server);
	server->running--;
}

/* Nothing more is received; `result` of nng says why. */
static void stop_receiving(struct connection *connection, int result)
{
	registry_lock(connection->server->registry);
	connection->receiving = false;
	if (result == NNG_ETIMEDOUT)
		end_late(connection, connection->asked ? DROP_half : DROP_silent);
	else
		connection_end(connection);
	registry_unlock(connection->server->registry);
}

static void receive(struct connection *connection)
{
	struct bytes *in = &connection->in;

	nng_aio_set_timeout(connection->in_aio, NNG_DURATION_INFINITE);
	if (connection->begun_ns)
		set_timeout(connection, connection->in_aio, connection->begun_ns);
	if (!begin_io(connection, nng_stream_recv, connection->in_aio, in, in->size, in->room))
		stop_receiving(connection, NNG_ECLOSED);
}

/* For one more connection, if only to tell it that it is one too many. */
static bool has_room(const struct registry *registry, const struct user *user)
{
	const struct limits *limits = &registry->state.users.limits;
	uint64_t connections = registry->state.users.total.held[LIMIT_connections];

	return user->own.held[LIMIT_connections] <
		   limits->of_user[LIMIT_connections] + limits->spare &&
	       connections < limits->connections + limits->spare &&
	       connections + registry->state.users.fds < limits->together;
}

void connection_refused(struct registry *registry, const struct process *peer, enum drop why)
{
	int status = why == DROP_crowd ? GPUSHARE_E_LIMIT : GPUSHARE_E_DENIED;

	log_line("refused: uid %u pid %d: %s", peer->uid, peer->pid, status_text(status));
	registry->state.users.total.drops[why]++;
	audit_refused(&registry->audit, peer, "connect", status);
}

/* The peer has greeted and gets a session. false: one too many. */
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
	if (!connection->ended && has_room(registry, connection->user))
		session = registry_connect(registry, connection->id, &peer);
	else if (!connection->ended)
		connection_refused(registry, &peer, DROP_crowd);
	if (session) {
		connection->session = session;
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

/* 1: done; 0: more bytes are needed; -1: the peer isn't nng's REQ, or is one too many. */
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

/* Handle the next message. 1: done; 2: done, and others may receive from here on; 0: more bytes are needed; -1: that
 * is no message. */
static int take_message(struct connection *connection)
{
	struct registry *registry = connection->server->registry;
	const uint8_t *at = connection->in.at + connection->in_at;
	size_t size = connection->in.size - connection->in_at, whole;
	struct ask ask;
	bool goes_on;
	long length;

	if (size < SP_HEADER_SIZE)
		return 0;
	length = sp_header_body_size(at);
	if (length < 0)
		return -1;
	whole = SP_HEADER_SIZE + SP_ID_SIZE + (size_t)length;
	if (size < whole)
		return 0;
	at += SP_HEADER_SIZE;
	size = whole - SP_HEADER_SIZE;
	ask.connection = connection;
	ask.ids_size = sp_ids_size(at, size);
	if (!ask.ids_size || ask.ids_size > sizeof(ask.ids))
		return -1;
	memcpy(ask.ids, at, ask.ids_size);
	ask_read(&ask, at + ask.ids_size, size - ask.ids_size, connection->uid, true);
	connection->in_at += whole;
	connection->begun_ns = 0;
	connection->asked = true;
	registry_lock(registry);
	ask.session = connection->session;
	ask_handle(registry, &ask);
	goes_on = connection->ended || may_receive(connection);
	connection->receiving = goes_on;
	registry_unlock(registry);
	return goes_on ? 1 : 2;
}

/* Handle everything that arrived. true: receive more when the answers are on their way. */
static bool take_in(struct connection *connection)
{
	int state = take_greeting(connection);

	while (state == 1)
		state = take_message(connection);
	if (state == 2)
		return false;
	if (state == 0) {
		bytes_skip(&connection->in, connection->in_at);
		connection->in_at = 0;
	}
	if (state < 0 || !bytes_reserve(&connection->in, 1)) {
		stop_receiving(connection, NNG_EPROTO);
		return false;
	}
	if (!connection->begun_ns && connection->in.size)
		connection->begun_ns = clock_ns();
	return true;
}

static void on_received(void *argument)
{
	struct connection *connection = argument;
	struct server *server = connection->server;
	int result = nng_aio_result(connection->in_aio);

	server->running++;
	if (result) {
		stop_receiving(connection, result);
	} else {
		connection->in.size += nng_aio_count(connection->in_aio);
		if (take_in(connection)) {
			connections_run(server);
			receive(connection);
		}
	}
	connections_run(server);
	server->running--;
}

/* Under the lock: choose what is sent next. false: nothing, or something is being sent. */
static bool fill_out(struct connection *connection)
{
	struct bytes sent = connection->out;

	if (connection->sending)
		return false;
	if (connection->out_at == sent.size) {
		bytes_skip(&sent, sent.size);
		connection->out = connection->pending;
		connection->pending = sent;
		connection->out_at = 0;
		connection->out_since_ns = clock_ns();
	}
	connection->sending = connection->out.size;
	return connection->sending;
}

/* Under the lock, which it releases for calls of nng. The last one to use it frees it. */
static void run_ended(struct connection *connection)
{
	struct server *server = connection->server;

	if (!connection->closing) {
		connection->closing = connection->listed = true; /* so that nobody else frees it */
		registry_unlock(server->registry);
		close_stream(connection);
		registry_lock(server->registry);
		connection->listed = false;
	}
	if (connection->receiving || connection->sending)
		return;
	connection->user->unread -= unread(connection);
	connection->user->sockets--;
	DL_DELETE(server->connections, connection);
	registry_unlock(server->registry);
	free_connection(connection);
	registry_lock(server->registry);
}

/* The same. */
static void run(struct connection *connection)
{
	struct registry *registry = connection->server->registry;
	bool sends, receives;

	if (connection->failed && !connection->ended) {
		log_line("no memory for an answer: pid %d is let go of", connection->pid);
		connection_end(connection);
	}
	if (connection->ended) {
		run_ended(connection);
		return;
	}
	sends = fill_out(connection);
	receives = !connection->receiving && may_receive(connection);
	connection->receiving |= receives;
	registry_unlock(registry);
	if (sends)
		send_out(connection);
	if (receives && take_in(connection))
		receive(connection);
	registry_lock(registry);
}

void connections_run(struct server *server)
{
	struct connection *connection;

	registry_lock(server->registry);
	while ((connection = server->todo)) {
		server->todo = connection->next_todo;
		connection->listed = false;
		run(connection);
	}
	registry_unlock(server->registry);
}

bool connection_is_served(struct registry *registry, uint32_t uid, int32_t pid)
{
	struct process peer;

	if (uid == geteuid() || registry->is_system)
		return true;
	process_read(pid, uid, &peer);
	registry_lock(registry);
	connection_refused(registry, &peer, DROP_stranger);
	registry_unlock(registry);
	return false;
}

static bool identify(struct connection *connection)
{
	uint64_t pid, uid, gid;

	if (nng_stream_get_uint64(connection->stream, NNG_OPT_IPC_PEER_UID, &uid) ||
	    nng_stream_get_uint64(connection->stream, NNG_OPT_IPC_PEER_GID, &gid) ||
	    nng_stream_get_uint64(connection->stream, NNG_OPT_IPC_PEER_PID, &pid))
		return false;
	connection->pid = (int32_t)pid;
	connection->uid = (uint32_t)uid;
	connection->gid = (uint32_t)gid;
	return connection_is_served(connection->server->registry, connection->uid, connection->pid);
}

static bool make(struct connection *connection)
{
	uint8_t greeting[SP_GREETING_SIZE];

	if (!bytes_reserve(&connection->in, 1) || !bytes_reserve(&connection->out, 1) ||
	    nng_aio_alloc(&connection->in_aio, on_received, connection) ||
	    nng_aio_alloc(&connection->out_aio, on_sent, connection) ||
	    nng_aio_alloc(&connection->now_aio, NULL, NULL))
		return false;
	sp_greeting(greeting, SP_REP);
	bytes_append(&connection->out, greeting, sizeof(greeting));
	connection->out_since_ns = connection->begun_ns = clock_ns();
	return true;
}

/* Among its user's and the server's. false: one too many, or the server is closing. */
static bool enter(struct connection *connection)
{
	struct server *server = connection->server;
	struct registry *registry = server->registry;

	registry_lock(registry);
	connection->user =
	    server->closing ? NULL : user_opens(&registry->state.users, connection->uid);
	if (connection->user) {
		do {
			server->last_id = server->last_id % ID_MOST + 1;
		} while (session_find(&registry->state.sessions, server->last_id));
		connection->id = server->last_id;
		connection->user->unread += connection->out.size;
		connection->receiving = connection->sending = true;
		DL_APPEND(server->connections, connection);
	}
	registry_unlock(registry);
	return connection->user;
}

void connection_open(struct server *server, nng_stream *stream)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection) {
		nng_stream_free(stream);
		return;
	}
	pthread_mutex_init(&connection->io, NULL);
	connection->server = server;
	connection->stream = stream;
	if (!identify(connection) || !make(connection) || !enter(connection)) {
		nng_stream_close(stream);
		free_connection(connection);
		return;
	}
	send_out(connection);
	receive(connection);
	connections_run(server);
}
