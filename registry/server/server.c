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
#include "persist/restore.h"
#include "server/ask.h"
#include "server/connection.h"

#define FULL_MS 10 /* before another look for a descriptor that a connection could have */

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

/* Under the lock: names and attachments of sessions that have ended go, as many as fit into a piece. */
static void end_piece(struct server *server, struct session *session)
{
	struct registry *registry = server->registry;
	bool more = registry_end(registry, session, clock_ns() + PIECE_NS);

	if (!more && registry->state.sessions.count)
		return;
	if (!more)
		server->idle_since_ns = clock_ns();
	eventfd_write(server->wake, 1);
}

void server_end_session(struct server *server, struct session *session)
{
	watch_remove(session->watch);
	session->watch = -1; /* it may stand for a while */
	asks_drop(server->registry, session);
	if (session->connection)
		session->connection->session = NULL;
	session->connection = NULL;
	registry_leave(server->registry, session);
	end_piece(server, session);
}

/* Returns when the next piece is due. In between, others have the lock for as long. */
static int64_t end_more(struct server *server)
{
	struct registry *registry = server->registry;
	int64_t next;

	registry_lock(registry);
	if (registry->state.ending && clock_ns() >= server->ending_at_ns) {
		end_piece(server, registry->state.ending);
		server->ending_at_ns = clock_ns() + PIECE_NS;
	}
	next = registry->state.ending ? server->ending_at_ns : INT64_MAX;
	registry_unlock(registry);
	return next;
}

/* One more session whose process has ended, or whose time to come back is over. false: none. */
static bool bury_one(struct server *server)
{
	struct registry *registry = server->registry;
	struct session *session;
	uint32_t id;

	registry_lock(registry);
	if (!watch_next(server->watches, &id))
		id = restore_next_dead(registry);
	session = id ? session_find(&registry->state.sessions, id) : NULL;
	if (session && session->connection)
		connection_end(session->connection);
	else if (session)
		server_end_session(server, session);
	registry_unlock(registry);
	return id;
}

int64_t server_tick(struct server *server)
{
	struct registry *registry = server->registry;
	int64_t next, now;

	while (bury_one(server))
		;
	next = end_more(server);
	registry_lock(registry);
	next = clock_sooner(next, asks_resume(registry));
	registry_unlock(registry);
	registry_lock(registry);
	now = clock_ns();
	next = clock_sooner(next, registry_expire(registry, now));
	next = clock_sooner(next, order_tick(registry, now));
	next = clock_sooner(next, registry_rates(registry, now));
	if (server->keeping && !registry->state.kept.root && !registry->state.sessions.count)
		server->idle_since_ns = now; /* nothing keeps us busy any more */
	server->keeping = registry->state.kept.root;
	registry_unlock(registry);
	connections_run(server);
	return next;
}

int64_t server_idle_since_ns(struct server *server)
{
	struct registry *registry = server->registry;
	int64_t since;

	registry_lock(registry);
	since = registry->state.kept.root ? INT64_MAX : server->idle_since_ns;
	registry_unlock(registry);
	return since;
}

bool server_is_alone(struct server *server)
{
	bool alone;

	registry_lock(server->registry);
	alone = !sessions_connected(&server->registry->state.sessions);
	registry_unlock(server->registry);
	return alone;
}

bool server_has_served(struct server *server)
{
	uint64_t before = server->served;

	registry_lock(server->registry);
	server->served = server->connected + server->registry->state.users.total.requests;
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
	registry->wake = server->wake;
	if (server->wake < 0 || server->watches < 0) {
		log_error("can't make a file descriptor to wait on: %s", strerror(errno));
		server_close(server);
		return false;
	}
	registry_lock(registry);
	restore_watch(registry, server->watches);
	if (registry->state.sessions.count)
		server->idle_since_ns = INT64_MAX;
	registry_unlock(registry);
	result = listen_on(server, path);
	if (!result)
		return true;
	log_error("can't listen on %s: %s", path, nng_strerror(result));
	server_close(server);
	return false;
}

static bool is_in_use(struct server *server)
{
	bool connected;

	registry_lock(server->registry);
	connected = server->connections;
	registry_unlock(server->registry);
	return connected || server->running;
}

void server_close(struct server *server)
{
	struct registry *registry = server->registry;
	struct connection *connection;

	if (server->listener) {
		nng_stream_listener_close(server->listener);
		nng_aio_stop(server->accepting);
		nng_stream_listener_free(server->listener);
	}
	if (server->accepting)
		nng_aio_free(server->accepting);
	registry_lock(registry);
	server->closing = true;
	DL_FOREACH(server->connections, connection)
	{
		connection_end(connection);
	}
	registry_unlock(registry);
	connections_run(server);
	while (is_in_use(server))
		nng_msleep(1);
	registry->wake = -1;
	close(server->watches);
	close(server->wake);
}
