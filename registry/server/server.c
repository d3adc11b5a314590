/* SPDX-License-Identifier: MIT */
#include "server/server.h"

#include <errno.h>
#include <nng/supplemental/util/platform.h>
#include <nng/transport/ipc/ipc.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/socket_access.h"
#include "os/log.h"
#include "order/order.h"
#include "os/piece.h"
#include "restore.h"
#include "server/ask.h"

#define FULL_MS 10	    /* before another look for a descriptor that a connection could have */
#define ID_MOST 0x7fffffffu /* those above are of sessions without a connection */

uint32_t server_next_id(struct server *server)
{
	do {
		server->last_id = server->last_id % ID_MOST + 1;
	} while (session_find(&server->registry->sessions, server->last_id));
	return server->last_id;
}

/* One after the other, in nng's threads. */
static void on_accepted(void *argument)
{
	struct server *server = argument;
	int result = nng_aio_result(server->accepting);

	if (result == NNG_ECLOSED || result == NNG_ECANCELED)
		return;
	if (!result && !server->pausing)
		connection_open(server, nng_aio_get_output(server->accepting, 0));
	server->pausing = result;
	if (result)
		nng_sleep_aio(FULL_MS, server->accepting);
	else
		nng_stream_listener_accept(server->listener, server->accepting);
}

/* Under the lock: a piece of what one has that has left. */
static void end_piece(struct server *server, struct session *session)
{
	struct registry *registry = server->registry;

	if (registry_end(registry, session, clock_ns() + PIECE_NS)) {
		eventfd_write(server->wake, 1);
	} else if (!registry->sessions.count) {
		server->idle_since_ns = clock_ns();
		eventfd_write(server->wake, 1);
	}
}

void server_end_session(struct server *server, struct session *session)
{
	struct waiter *waiters;

	watch_remove(session->watch);
	session->watch = -1; /* it may stand for a while */
	asks_drop_lists(session->user, session->connection);
	if (session->watcher)
		asks_drop_watch(session->watcher);
	session->connection = NULL;
	waiters = registry_leave(server->registry, session);
	while (waiters) {
		struct waiter *waiter = waiters;

		DL_DELETE(waiters, waiter);
		ask_drop(waiter);
	}
	end_piece(server, session);
}

/* The first request whose next piece is due; NULL: none is done in pieces. */
static struct ask *next_in_pieces(const struct registry *registry)
{
	struct waiter *waiter;

	DL_FOREACH(registry->waiters, waiter)
	{
		if (waiter->more)
			return waiter->work;
	}
	return NULL;
}

/* Under the lock. When the next piece is due; INT64_MAX: all have gone. In between, others have the lock for
 * as long. */
static int64_t end_more(struct server *server, struct connection **todo)
{
	struct registry *registry = server->registry;
	struct ask *ask = next_in_pieces(registry);

	if ((registry->ending || ask) && clock_ns() >= server->piece_ns) {
		if (registry->ending)
			end_piece(server, registry->ending);
		else
			ask_serve(ask, todo);
		server->piece_ns = clock_ns() + PIECE_NS;
	}
	return registry->ending || next_in_pieces(registry) ? server->piece_ns : INT64_MAX;
}

/* One more session whose process has ended, or whose time to come back. false: none. */
static bool bury_one(struct server *server, struct connection **todo)
{
	struct registry *registry = server->registry;
	struct session *session;
	uint32_t id;

	registry_lock(registry);
	if (!watch_next(server->watches, &id))
		id = restore_next_dead(registry);
	session = id ? session_find(&registry->sessions, id) : NULL;
	if (session && session->connection)
		connection_end(session->connection, todo);
	else if (session)
		server_end_session(server, session);
	registry_unlock(registry);
	return id;
}

static int64_t sooner(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

int64_t server_tick(struct server *server)
{
	struct registry *registry = server->registry;
	struct connection *todo = NULL;
	int64_t now = clock_ns(), next;

	while (bury_one(server, &todo))
		;
	registry_lock(registry);
	next = end_more(server, &todo);
	asks_time_out(registry, now, &todo);
	next = sooner(next, asks_list(registry, &todo));
	next = sooner(next, registry_next_deadline_ns(registry));
	next = sooner(next, registry_expire(registry, now));
	next = sooner(next, order_tick(registry, now));
	next = sooner(next, registry_rates(registry, now));
	next = sooner(next, asks_notify(registry, &todo));
	if (server->keeping && !registry->kept.root && !registry->sessions.count)
		server->idle_since_ns = now; /* nothing keeps us busy any more */
	server->keeping = registry->kept.root;
	registry_unlock(registry);

	connections_run(todo);
	return next;
}

int64_t server_idle_since_ns(struct server *server)
{
	struct registry *registry = server->registry;
	int64_t since;

	registry_lock(registry);
	since = registry->kept.root ? INT64_MAX : server->idle_since_ns;
	registry_unlock(registry);
	return since;
}

bool server_is_alone(struct server *server)
{
	bool alone;

	registry_lock(server->registry);
	alone = !sessions_connected(&server->registry->sessions);
	registry_unlock(server->registry);
	return alone;
}

bool server_has_served(struct server *server)
{
	uint64_t before = server->served;

	registry_lock(server->registry);
	server->served = server->connected + server->registry->counts.requests;
	registry_unlock(server->registry);
	return server->served != before;
}

static int listen_on(struct server *server, const char *path)
{
	char url[sizeof("ipc://") + GPUSHARE_PATH_MAX];
	int result;

	snprintf(url, sizeof(url), "ipc://%s", path);
	if ((result = nng_aio_alloc(&server->accepting, on_accepted, server)) ||
	    (result = nng_stream_listener_alloc(&server->listener, url)) ||
	    (result =
		 nng_stream_listener_set_int(server->listener, NNG_OPT_IPC_PERMISSIONS, 0600)) ||
	    (result = nng_stream_listener_listen(server->listener)))
		return result;
	if (!socket_access_open(path))
		return NNG_EPERM;
	nng_stream_listener_accept(server->listener, server->accepting);
	return 0;
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
	pthread_cond_init(&server->none, NULL);
	registry->wake = server->wake;
	if (server->wake < 0 || server->watches < 0) {
		log_error("can't make a file descriptor to wait on: %s", strerror(errno));
		server_close(server);
		return false;
	}
	registry_lock(registry);
	restore_watch(registry, server->watches);
	if (registry->sessions.count)
		server->idle_since_ns = INT64_MAX;
	registry_unlock(registry);
	result = listen_on(server, path);
	if (!result)
		return true;
	log_error("can't listen on %s: %s", path, nng_strerror(result));
	server_close(server);
	return false;
}

/* Under the lock, which it lets go of. */
static void end_all(struct server *server)
{
	struct connection *todo = NULL, *connection;

	server->closing = true;
	DL_FOREACH(server->connections, connection)
	{
		connection_end(connection, &todo);
	}
	registry_unlock(server->registry);
	connections_run(todo);
	registry_lock(server->registry);
	while (server->connections)
		pthread_cond_wait(&server->none, &server->registry->lock);
}

void server_close(struct server *server)
{
	struct registry *registry = server->registry;

	if (server->listener) {
		nng_stream_listener_close(server->listener);
		nng_aio_stop(server->accepting);
		nng_stream_listener_free(server->listener);
	}
	if (server->accepting)
		nng_aio_free(server->accepting);
	registry_lock(registry);
	end_all(server);
	registry->wake = -1;
	registry_unlock(registry);
	pthread_cond_destroy(&server->none);
	close(server->watches);
	close(server->wake);
}
