/* SPDX-License-Identifier: MIT */
#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/transport/ipc/ipc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "listen.h"
#include "log.h"
#include "order_page.h"
#include "piece.h"
#include "restore.h"
#include "work.h"

#define CLOSE_AFTER_MS 1000

/* For one more connection, if only to hear that it is one too many. */
static bool has_room(struct registry *registry, uint32_t uid)
{
	struct user *user = user_of(&registry->users, uid);
	const struct limits *limits = &registry->limits;

	return user &&
	       user->held[LIMIT_connections] < limits->of_user[LIMIT_connections] + limits->spare &&
	       registry->users.held[LIMIT_connections] < limits->connections + limits->spare &&
	       registry->users.held[LIMIT_connections] + registry->vault.count < limits->together;
}

/* Its pipe is closed before it could hear a sentence. */
static void turn_away(struct registry *registry, const struct process *peer)
{
	registry->counts.drops[DROP_crowd]++;
	audit_refused(registry, peer, "connect", GPUSHARE_E_LIMIT);
}

/* Before the pipe's first request is read. May close it: then it never gets to send one. */
static void on_connect(nng_pipe pipe, nng_pipe_ev event, void *argument)
{
	struct server *server = argument;
	struct registry *registry = server->registry;
	uint64_t pid = 0, uid = 0, gid = IDENTITY_NO_GROUP;
	struct process peer;
	struct identity who;
	struct lease *lease = NULL;
	int watch;

	listen_note(pipe, event);
	if (nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_UID, &uid) ||
	    nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_GID, &gid) ||
	    nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_PID, &pid)) {
		nng_pipe_close(pipe);
		return;
	}
	if (pid == (uint64_t)getpid()) { /* our own probe: no reason to stay */
		probe_hear(&server->probe);
		return;
	}
	if (uid != geteuid() && !registry->is_system) {
		log_line("refused: uid %" PRIu64 " pid %" PRIu64, uid, pid);
		pthread_mutex_lock(&registry->lock);
		registry->counts.drops[DROP_stranger]++;
		audit_stranger(registry, (uint32_t)uid, (int32_t)pid);
		pthread_mutex_unlock(&registry->lock);
		nng_pipe_close(pipe);
		return;
	}
	process_read((int32_t)pid, (uint32_t)uid, &peer);
	identity_read(&who, &peer, (uint32_t)gid);
	watch = watch_add(server->watches, peer.pid, (uint32_t)nng_pipe_id(pipe));
	pthread_mutex_lock(&registry->lock);
	server->connected++;
	if (has_room(registry, peer.uid))
		lease = registry_connect(registry, (uint32_t)nng_pipe_id(pipe), &peer);
	else
		turn_away(registry, &peer);
	if (lease) {
		lease->watch = watch;
		lease->who = who;
		server->idle_since_ns = INT64_MAX;
	}
	pthread_mutex_unlock(&registry->lock);
	if (lease)
		return;
	watch_remove(watch);
	identity_finish(&who);
	nng_pipe_close(pipe);
}

/* Under the lock: a piece of what one has that has left. */
static void end_piece(struct server *server, struct lease *lease)
{
	struct registry *registry = server->registry;

	if (registry_end(registry, lease, clock_ns() + PIECE_NS)) {
		eventfd_write(server->wake, 1);
	} else if (!registry->leases.count) {
		server->idle_since_ns = clock_ns();
		eventfd_write(server->wake, 1);
	}
}

/* The first request whose next piece is due; NULL: none is done in pieces. */
static struct work *next_in_pieces(const struct registry *registry)
{
	struct waiter *waiter;

	DL_FOREACH(registry->waiters, waiter)
	{
		if (waiter->more)
			return waiter->work;
	}
	return NULL;
}

/* When the next piece is due; INT64_MAX: all have gone. In between, others have the lock for as long. */
static int64_t end_more(struct server *server, struct work **ready)
{
	struct registry *registry = server->registry;
	struct work *work;
	bool more;

	pthread_mutex_lock(&registry->lock);
	work = next_in_pieces(registry);
	if ((registry->ending || work) && clock_ns() >= server->piece_ns) {
		if (registry->ending)
			end_piece(server, registry->ending);
		else
			work_serve(work, ready);
		server->piece_ns = clock_ns() + PIECE_NS;
	}
	more = registry->ending || next_in_pieces(registry);
	pthread_mutex_unlock(&registry->lock);
	return more ? server->piece_ns : INT64_MAX;
}

/* Its waiters go, its names and attachments as soon as may be; the connection itself may be there a little
 * longer. */
static void end_lease(struct server *server, uint32_t id)
{
	struct registry *registry = server->registry;
	struct waiter *waiters = NULL;
	struct lease *lease;

	pthread_mutex_lock(&registry->lock);
	lease = lease_find(&registry->leases, id);
	if (lease) {
		watch_remove(lease->watch);
		lease->watch = -1; /* it may stand for a while */
		waiters = registry_leave(registry, lease);
		end_piece(server, lease);
	}
	pthread_mutex_unlock(&registry->lock);

	/* Nobody waits for these answers now. */
	while (waiters) {
		struct waiter *waiter = waiters;
		struct work *work = waiter->work;

		DL_DELETE(waiters, waiter);
		nng_msg_free(work->message);
		work->message = NULL;
		work_receive(work);
	}
}

static void on_disconnect(nng_pipe pipe, nng_pipe_ev event, void *argument)
{
	listen_note(pipe, event);
	end_lease(argument, (uint32_t)nng_pipe_id(pipe));
}

/* Enough for every waiter and some answers under way. */
static uint64_t contexts_limit(const struct server *server)
{
	return server->registry->limits.waiters + LIMIT_CONTEXTS_SPARE;
}

/* Main loop only. */
static void open_contexts(struct server *server, unsigned int count)
{
	while (count-- > 0 && server->work_count < contexts_limit(server)) {
		struct work *work = work_new(server);

		if (!work) {
			log_line("no memory for another context");
			return;
		}
		work->next = server->works;
		server->works = work;
		server->work_count++;
		work_receive(work);
	}
}

/*
 * The connection of a process that died. The kernel has closed it, and nng is about to see that:
 * closing it as well, between two parts of a message, loses nng 1.5.2 an aio (see work.c), its
 * reaper waits for it, and no connection is ever let go of again. What is there still after a while
 * is held by a forked child, and is idle.
 */
static void close_later(struct server *server, uint32_t id, int64_t now_ns)
{
	struct closing *closing = malloc(sizeof(*closing));

	if (!closing)
		return; /* the child's own end will do */
	*closing = (struct closing){.id = id, .due_ns = now_ns + CLOSE_AFTER_MS * NS_PER_MS};
	DL_APPEND(server->closing, closing);
}

/* When the next one is due; INT64_MAX: none. */
static int64_t close_due(struct server *server, int64_t now_ns)
{
	struct closing *closing;

	while ((closing = server->closing)) {
		if (closing->due_ns > now_ns)
			return closing->due_ns;
		DL_DELETE(server->closing, closing);
		nng_pipe_close((nng_pipe){.id = closing->id}); /* which has mostly gone */
		free(closing);
	}
	return INT64_MAX;
}

static uint32_t next_dead_ghost(struct server *server)
{
	uint32_t id;

	pthread_mutex_lock(&server->registry->lock);
	id = restore_next_dead(server->registry);
	pthread_mutex_unlock(&server->registry->lock);
	return id;
}

int64_t server_tick(struct server *server)
{
	struct registry *registry = server->registry;
	struct work *ready = NULL;
	struct waiter *waiter, *after;
	int64_t now = clock_ns(), next, kept, marks, closing, ending;
	unsigned int receiving;
	uint32_t dead;

	while (watch_next(server->watches, &dead)) {
		end_lease(server, dead);
		close_later(server, dead, now);
	}
	while ((dead = next_dead_ghost(server)))
		end_lease(server, dead);
	closing = close_due(server, now);
	ending = end_more(server, &ready);

	pthread_mutex_lock(&registry->lock);
	DL_FOREACH_SAFE(registry->waiters, waiter, after)
	{
		if (waiter->deadline_ns <= now)
			work_time_out(waiter->work, &ready);
	}
	next = registry_next_deadline_ns(registry);
	kept = keep_expire(registry, now);
	marks = order_tick(registry, now);
	if (server->keeping && !registry->kept && !registry->leases.count)
		server->idle_since_ns = now; /* nothing keeps us busy any more */
	server->keeping = registry->kept;
	receiving = server->receiving;
	pthread_mutex_unlock(&registry->lock);

	work_send(ready);
	if (receiving < LIMIT_CONTEXTS_LOW)
		open_contexts(server, LIMIT_CONTEXTS_FIRST);
	next = kept < next ? kept : next;
	next = marks < next ? marks : next;
	next = ending < next ? ending : next;
	return closing < next ? closing : next;
}

int64_t server_idle_since_ns(struct server *server)
{
	struct registry *registry = server->registry;
	const struct events *events = &registry->events;
	int64_t since;

	pthread_mutex_lock(&registry->lock);
	since = server->idle_since_ns > events->left_ns ? server->idle_since_ns : events->left_ns;
	if (registry->kept || events->watchers)
		since = INT64_MAX;
	pthread_mutex_unlock(&registry->lock);
	return since;
}

bool server_is_alone(struct server *server)
{
	bool alone;

	pthread_mutex_lock(&server->registry->lock);
	alone = !leases_connected(&server->registry->leases);
	pthread_mutex_unlock(&server->registry->lock);
	return alone;
}

bool server_has_served(struct server *server)
{
	uint64_t before = server->served;

	pthread_mutex_lock(&server->registry->lock);
	server->served = server->connected + server->registry->counts.requests;
	pthread_mutex_unlock(&server->registry->lock);
	return server->served != before;
}

void server_hear(struct server *server, const char *path, bool busy)
{
	server->probe.busy = busy;
	listen_hear(server->socket, path, SP_REQ, &server->probe);
}

static int listen_on(struct server *server, const char *path)
{
	int result;

	if ((result = nng_socket_set_size(server->socket, NNG_OPT_RECVMAXSZ,
					  GPUSHARE_MESSAGE_MAX + SP_ID_SIZE)) ||
	    (result = nng_pipe_notify(server->socket, NNG_PIPE_EV_ADD_PRE, on_connect, server)) ||
	    (result = nng_pipe_notify(server->socket, NNG_PIPE_EV_REM_POST, on_disconnect, server)))
		return result;
	open_contexts(server, LIMIT_CONTEXTS_FIRST);
	return listen_start(server->socket, path);
}

bool server_open(struct server *server, struct registry *registry, const char *path)
{
	int result;

	*server = (struct server){
	    .registry = registry,
	    .idle_since_ns = clock_ns(),
	    .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	    .watches = watch_open(),
	};
	registry->wake = server->wake;
	if (!probe_open(&server->probe) || server->wake < 0 || server->watches < 0) {
		log_error("can't make a file descriptor to wait on: %s", strerror(errno));
		result = -1;
	} else if (!(result = nng_rep0_open(&server->socket))) {
		pthread_mutex_lock(&registry->lock); /* fds.sock is being served already */
		restore_watch(registry, server->watches);
		if (registry->leases.count)
			server->idle_since_ns = INT64_MAX;
		pthread_mutex_unlock(&registry->lock);
		result = listen_on(server, path);
		if (!result)
			return true;
	}
	if (result > 0)
		log_error("can't listen on %s: %s", path, nng_strerror(result));
	server_close(server);
	return false;
}

void server_close(struct server *server)
{
	struct closing *closing;

	nng_close(server->socket);
	server->registry->wake = -1;
	for (struct work *work = server->works; work; work = work->next)
		work_stop(work);
	while (server->works) {
		struct work *next = server->works->next;

		work_free(server->works);
		server->works = next;
	}
	while ((closing = server->closing)) {
		DL_DELETE(server->closing, closing);
		free(closing);
	}
	close(server->watches);
	probe_close(&server->probe);
	close(server->wake);
}
