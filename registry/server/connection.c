/* SPDX-License-Identifier: MIT */
#include "server/connection.h"

#include <nng/transport/ipc/ipc.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "os/log.h"
#include "server/ask.h"

#define UNSENT_MOST (64 << 10) /* with this many bytes of unsent answers, handle no more requests */
#define ROOM_LEAST 512
#define ROOM_KEPT 4096	    /* bytes; if an empty buffer has more, free it */
#define ID_MOST 0x7fffffffu /* restored sessions have higher ids */
#define TURNS_MOST 16 /* at most, in one callback: until the callback ends, nng frees nothing */

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

/* Remove the first `count` bytes. If a large buffer is empty then, free it. */
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

/* `turns` must be locked. */
static void leave_delayed(struct connection *connection)
{
	if (connection->delayed)
		DL_DELETE(connection->user->delayed, connection);
	connection->delayed = false;
}

/* List the connection for a turn. The lists are by user, and users take turns: no user waits for
 * all connections of another one. `turns` must be locked. */
static void append(struct connection *connection)
{
	struct user *user = connection->user;

	connection->again = connection->busy;
	if (connection->listed || connection->busy)
		return;
	leave_delayed(connection);
	connection->listed = true;
	if (!user->todo)
		DL_APPEND(connection->server->todo, user);
	DL_APPEND(user->todo, connection);
}

static void list(struct connection *connection)
{
	pthread_mutex_lock(&connection->server->turns);
	append(connection);
	pthread_mutex_unlock(&connection->server->turns);
}

/* Take the connection whose turn is next. `turns` must be locked. */
static struct connection *next(struct server *server)
{
	struct user *user = server->todo;
	struct connection *connection = user->todo;

	DL_DELETE(server->todo, user);
	DL_DELETE(user->todo, connection);
	if (user->todo)
		DL_APPEND(server->todo, user);
	connection->listed = connection->again = false;
	connection->busy = true;
	connection->ready = !connection->waits;
	return connection;
}

void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size)
{
	struct bytes *pending = &connection->pending;
	uint8_t header[SP_HEADER_SIZE];

	connection->failed |= !bytes_reserve(pending, sizeof(header) + ids_size + size);
	if (!connection->turning || connection->failed)
		list(connection);
	if (connection->failed)
		return;
	sp_length(header, ids_size + size);
	bytes_append(pending, header, sizeof(header));
	bytes_append(pending, ids, ids_size);
	bytes_append(pending, answer, size);
}

void connection_end(struct connection *connection)
{
	if (!connection->turning)
		list(connection);
	if (connection->ended)
		return;
	connection->ended = true;
	if (connection->session)
		server_end_session(connection->server, connection->session);
}

/* End the connection, because the peer did not send or read in time. The registry's lock must be
 * held. */
static void end_late(struct connection *connection)
{
	enum drop why = connection->sends ? DROP_deaf : connection->asked ? DROP_half : DROP_silent;
	static const char *const causes[DROP_KINDS] = {
	    [DROP_silent] = "no complete request",
	    [DROP_half] = "an unfinished request",
	    [DROP_deaf] = "unread answers",
	};

	if (!connection->ended) {
		connection->server->registry->state.users.total.drops[why]++;
		log_line("a connection is closed on timeout: uid %u, %s", connection->uid,
			 causes[why]);
	}
	connection_end(connection);
}

/* Take the result of `aio`, which has ended. The registry's lock must be held. */
static void take_result(struct connection *connection)
{
	int result = nng_aio_result(connection->aio);

	connection->came = false;
	if (!result)
		*(connection->sends ? &connection->out_at : &connection->in.size) +=
		    nng_aio_count(connection->aio);
	if (result == NNG_ETIMEDOUT)
		end_late(connection);
	else if (result && result != NNG_ECANCELED) /* send_out() cancelled it */
		connection_end(connection);
}

/* The callback of `aio`. Lists the connection without the registry's lock, so that many connections
 * of one user don't delay those of others. */
static void on_ready(void *argument)
{
	struct connection *connection = argument;
	struct server *server = connection->server;

	pthread_mutex_lock(&server->turns);
	connection->waits = false;
	connection->came = true;
	append(connection);
	pthread_mutex_unlock(&server->turns);
	connections_run(server);
}

/* The peer has sent its greeting: make its session. Releases the registry's lock for a while. */
static void welcome(struct connection *connection)
{
	struct server *server = connection->server;
	struct session *session = NULL;
	struct process peer;
	struct identity who;
	int watch;

	registry_unlock(server->registry);
	process_read(connection->pid, connection->uid, &peer);
	identity_read(&who, &peer, connection->gid);
	watch = watch_add(peer.pid, connection->id);
	registry_lock(server->registry);
	if (!connection->ended)
		session = registry_connect(server->registry, connection->id, &peer);
	if (session) {
		connection->session = session;
		session->connection = connection;
		session->watch = watch;
		session->who = who;
		if (watch_ended(watch)) /* the process ended before it had a session */
			connection_end(connection);
		return;
	}
	watch_remove(watch);
	identity_finish(&who);
	connection_end(connection);
}

enum taken {
	TAKEN,
	PART, /* more bytes are needed */
	/* another connection of the user looks up a group, so this one is in user->delayed */
	LATER,
	BROKEN, /* the peer is no REQ socket of nng, or memory ran out */
};

static enum taken take_greeting(struct connection *connection)
{
	if (connection->in.size < SP_GREETING_SIZE)
		return PART;
	if (!sp_greeting_is(connection->in.at, SP_REQ))
		return BROKEN;
	connection->in_at = SP_GREETING_SIZE;
	connection->greeted = true;
	welcome(connection);
	return TAKEN;
}

/* Look up the group that the request names. The host's name service may block, so let at most one
 * thread for each user wait for it, and let another thread work meanwhile. false: one waits
 * already, so handle the request later. */
static bool find_group(struct connection *connection, struct ask *ask)
{
	struct server *server = connection->server;
	struct user *user = connection->user;
	struct connection *other, *after;

	pthread_mutex_lock(&server->turns);
	if (user->looks_up_group) {
		connection->delayed = true;
		DL_APPEND(user->delayed, connection);
		pthread_mutex_unlock(&server->turns);
		return false;
	}
	server->working--;
	user->looks_up_group = true;
	pthread_mutex_unlock(&server->turns);
	connections_kick(server);
	identity_find_group(ask->request.verb.share.group, &ask->group);
	pthread_mutex_lock(&server->turns);
	server->working++;
	user->looks_up_group = false;
	DL_FOREACH_SAFE (user->delayed, other, after) {
		append(other);
	}
	pthread_mutex_unlock(&server->turns);
	return true;
}

static enum taken take_message(struct connection *connection)
{
	struct registry *registry = connection->server->registry;
	const uint8_t *at = connection->in.at + connection->in_at;
	size_t size = connection->in.size - connection->in_at, whole, ids_size;
	bool later;
	struct ask *ask;
	long length;

	if (size < SP_HEADER_SIZE)
		return PART;
	length = sp_header_body_size(at);
	if (length < 0)
		return BROKEN;
	whole = SP_HEADER_SIZE + SP_ID_SIZE + (size_t)length;
	if (size < whole) {
		connection->wanted = whole - size;
		return PART;
	}
	at += SP_HEADER_SIZE;
	size = whole - SP_HEADER_SIZE;
	ids_size = sp_ids_size(at, size);
	ask = ids_size && ids_size <= sizeof(ask->ids) ? malloc(sizeof(*ask)) : NULL;
	if (!ask)
		return BROKEN;
	ask->connection = connection;
	ask->ids_size = ids_size;
	memcpy(ask->ids, at, ids_size);
	connection->begun_ns = 0;
	connection->asked = true;
	registry_unlock(registry);
	later = ask_read(ask, at + ids_size, size - ids_size) && !find_group(connection, ask);
	registry_lock(registry);
	if (later) {
		free(ask);
		return LATER;
	}
	connection->in_at += whole;
	ask->session = connection->session;
	ask_handle(registry, ask);
	return TAKEN;
}

/* The registry's lock must be held. */
static bool may_handle(const struct connection *connection)
{
	return !connection->ended && !connection->in_pieces &&
	       connection->pending.size + connection->out.size - connection->out_at < UNSENT_MOST;
}

/* Handle the messages that have arrived, for PIECE_NS at most. Returns what became of the last one;
 * TAKEN: there may be more. */
static enum taken take_in(struct connection *connection)
{
	struct piece piece = piece_begin();
	enum taken taken = TAKEN;

	connection->wanted = ROOM_LEAST;
	while (taken == TAKEN && may_handle(connection) && !piece_is_over(&piece))
		taken = connection->greeted ? take_message(connection) : take_greeting(connection);
	if (taken == PART) {
		bytes_skip(&connection->in, connection->in_at);
		connection->in_at = 0;
		if (!connection->begun_ns && connection->in.size)
			connection->begun_ns = clock_ns();
	}
	if (taken == BROKEN || !bytes_reserve(&connection->in, connection->wanted))
		connection_end(connection);
	return taken;
}

/* If all of `out` is sent, send the pending answers next. The registry's lock must be held. */
static void fill_out(struct connection *connection)
{
	struct bytes sent = connection->out;

	if (connection->out_at < sent.size)
		return;
	bytes_skip(&sent, sent.size);
	connection->out = connection->pending;
	connection->pending = sent;
	connection->out_at = 0;
	connection->out_since_ns = clock_ns();
}

static void start(struct connection *connection, nng_aio *aio, bool sends)
{
	const struct bytes *bytes = sends ? &connection->out : &connection->in;
	size_t from = sends ? connection->out_at : bytes->size;
	nng_iov part = {.iov_buf = bytes->at + from,
			.iov_len = sends ? bytes->size - from : connection->wanted};

	nng_aio_set_iov(aio, 1, &part);
	(sends ? nng_stream_send : nng_stream_recv)(connection->stream, aio);
}

/* Send what the socket takes at once. This uses no callback, because nng would wake another thread
 * to run it. true: not all is sent. */
static bool send_out(struct connection *connection)
{
	nng_aio *now = connection->now_aio;
	int result = 0;

	while (!result && connection->out_at < connection->out.size) {
		start(connection, now, true);
		nng_aio_cancel(now);
		nng_aio_wait(now);
		result = nng_aio_result(now);
		if (!result)
			connection->out_at += nng_aio_count(now);
	}
	if (result == NNG_ECANCELED) {
		nng_aio_cancel(connection->aio); /* receive nothing until all is sent */
	} else if (result) {
		registry_lock(connection->server->registry);
		connection_end(connection);
		registry_unlock(connection->server->registry);
	}
	return result == NNG_ECANCELED;
}

/* Start `aio`. `sends`: wait for room to send; false: wait for requests. */
static void wait_on(struct connection *connection, bool sends)
{
	int64_t since_ns = sends ? connection->out_since_ns : connection->begun_ns;
	int left_ms = NNG_DURATION_INFINITE;

	if (since_ns) {
		since_ns += connection->server->registry->state.users.limits.silent_ns;
		left_ms = clock_timeout_ms(since_ns);
		left_ms = left_ms > 0 ? left_ms : 1;
	}
	connection->waits = true;
	connection->sends = sends;
	nng_aio_set_timeout(connection->aio, left_ms);
	start(connection, connection->aio, sends);
}

static void free_connection(struct connection *connection)
{
	nng_stream_close(connection->stream);
	nng_stream_free(connection->stream);
	if (connection->aio)
		/* not nng_aio_free(): this may run in the callback */
		nng_aio_reap(connection->aio);
	if (connection->now_aio)
		nng_aio_reap(connection->now_aio);
	free(connection->in.at);
	free(connection->out.at);
	free(connection->pending.at);
	free(connection);
}

/* Close the connection, which has ended. true: it is freed. false: `aio` is still under way, and
 * its callback leads to another turn. */
static bool close_connection(struct connection *connection)
{
	if (!connection->ready) {
		nng_stream_close(connection->stream);
		return false;
	}
	pthread_mutex_lock(&connection->server->turns);
	leave_delayed(connection);
	pthread_mutex_unlock(&connection->server->turns);
	registry_lock(connection->server->registry);
	user_closes(connection->user);
	registry_unlock(connection->server->registry);
	free_connection(connection);
	return true;
}

/* One turn: handle requests, send answers, and let `aio` wait for more requests or for room to
 * send. true: the connection is freed. */
static bool turn(struct connection *connection)
{
	struct registry *registry = connection->server->registry;
	enum taken taken = LATER;
	bool more, sending, unsent, ended;

	registry_lock(registry);
	connection->turning = true;
	if (connection->ready && connection->came)
		take_result(connection);
	if (connection->failed && !connection->ended) {
		log_line("no memory for an answer: closing the connection of pid %d",
			 connection->pid);
		connection_end(connection);
	}
	if (connection->ready)
		taken = take_in(connection);
	sending = !connection->ready && connection->sends;
	if (!sending)
		fill_out(connection);
	more = connection->pending.size || (taken == TAKEN && !connection->in_pieces);
	ended = connection->ended;
	connection->turning = false;
	registry_unlock(registry);
	if (ended)
		return close_connection(connection);
	unsent = !sending && send_out(connection);
	if (connection->ready && (unsent || taken == PART))
		wait_on(connection, unsent);
	if (!sending && !unsent && more)
		list(connection);
	return false;
}

void connections_run(struct server *server)
{
	pthread_mutex_lock(&server->turns);
	server->working++;
	for (int i = 0; i < TURNS_MOST && server->todo && server->working <= server->workers; i++) {
		struct connection *connection = next(server);
		bool freed;

		pthread_mutex_unlock(&server->turns);
		freed = turn(connection);
		pthread_mutex_lock(&server->turns);
		if (freed)
			continue;
		connection->busy = false;
		if (connection->again)
			append(connection);
	}
	server->working--;
	pthread_mutex_unlock(&server->turns);
	connections_kick(server);
}

void connections_kick(struct server *server)
{
	bool kicks;

	pthread_mutex_lock(&server->turns);
	kicks = server->todo && server->working < server->workers && !server->kicked;
	server->kicked |= kicks;
	pthread_mutex_unlock(&server->turns);
	if (kicks && nng_aio_begin(server->kick))
		nng_aio_finish(server->kick, 0);
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
	return true;
}

static bool make(struct connection *connection)
{
	uint8_t greeting[SP_GREETING_SIZE];

	if (!bytes_reserve(&connection->out, sizeof(greeting)) ||
	    nng_aio_alloc(&connection->aio, on_ready, connection) ||
	    nng_aio_alloc(&connection->now_aio, NULL, NULL))
		return false;
	sp_greeting(greeting, SP_REP);
	bytes_append(&connection->out, greeting, sizeof(greeting));
	connection->out_since_ns = connection->begun_ns = clock_ns();
	return true;
}

void connection_open(struct server *server, nng_stream *stream)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct registry *registry = server->registry;

	if (!connection) {
		nng_stream_free(stream);
		return;
	}
	connection->server = server;
	connection->stream = stream;
	if (!identify(connection) || !make(connection) ||
	    !server_admit(registry, connection->uid, connection->pid, &connection->user)) {
		free_connection(connection);
		return;
	}
	registry_lock(registry);
	do {
		server->last_id = server->last_id % ID_MOST + 1;
	} while (session_find(&registry->state.sessions, server->last_id));
	connection->id = server->last_id;
	list(connection);
	registry_unlock(registry);
}
