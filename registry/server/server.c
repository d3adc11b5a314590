/* SPDX-License-Identifier: MIT */
#include "server/server.h"

#include <errno.h>
#include <nng/transport/ipc/ipc.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "order/order.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/instance.h"
#include "persist/persist.h"
#include "server/ask.h"
#include "server/connection.h"

/* Threads that may give turns. More would only wait for the registry's lock: on 16 CPUs with 15
 * such threads, 64 clients got half as many answers. nng has two threads for each CPU, and one of
 * them must stay free to list connections. */
#define WORKERS_MOST 3
#define FULL_MS 10 /* pause after a failed accept, e.g. for lack of descriptors */

void server_refused(struct registry *registry, uint32_t uid, int32_t pid, const char *what,
		    int status)
{
	struct process peer;

	process_read(pid, uid, &peer);
	log_line("refused: uid %u pid %d (%s), %s: %s", uid, pid, peer.command, what,
		 status_text(status));
	registry_lock(registry);
	audit_refused(&registry->audit, &peer, what, status);
	registry_unlock(registry);
}

bool server_admit(struct registry *registry, uint32_t uid, int32_t pid, struct user **out_user)
{
	bool served = uid == geteuid() || registry->is_system, enters;
	struct user *user;

	registry_lock(registry);
	*out_user = user = user_of(&registry->state.users, uid);
	enters = served && user && user_opens(user);
	if (!enters)
		registry->state.users.total.drops[served ? DROP_crowd : DROP_stranger]++;
	registry_unlock(registry);
	if (!enters)
		server_refused(registry, uid, pid, "connect",
			       served ? GPUSHARE_E_LIMIT : GPUSHARE_E_DENIED);
	return enters;
}

static void on_accepted(void *argument)
{
	struct server *server = argument;
	int result = nng_aio_result(server->accepting);

	if (!result && !server->pausing)
		connection_open(server, nng_aio_get_output(server->accepting, 0));
	server->pausing = result;
	if (result)
		nng_sleep_aio(FULL_MS, server->accepting);
	else
		nng_stream_listener_accept(server->listener, server->accepting);
	connections_run(server);
}

static void on_kick(void *argument)
{
	struct server *server = argument;

	pthread_mutex_lock(&server->turns);
	server->kicked = false;
	pthread_mutex_unlock(&server->turns);
	connections_run(server);
}

void server_end_session(struct server *server, struct session *session)
{
	watch_remove(session->watch);
	session->watch = -1; /* the session may exist for a while longer */
	asks_drop(server->registry, session);
	if (session->connection)
		session->connection->session = NULL;
	session->connection = NULL;
	state_leave(&server->registry->state, session);
	/* End sessions that have left, this one first, for PIECE_NS: usually long enough for all of
	 * it. */
	registry_end(server->registry, clock_ns() + PIECE_NS);
	if (server->registry->state.ending || !server->registry->state.sessions.by_id)
		server->registry->due = true;
}

/* Continue to end sessions, for PIECE_NS at most. Returns when to continue: the lock is free for
 * PIECE_NS in between. */
static int64_t end_more(struct server *server)
{
	struct registry *registry = server->registry;
	int64_t next;

	registry_lock(registry);
	if (registry->state.ending && clock_ns() >= server->ending_at_ns) {
		registry_end(registry, clock_ns() + PIECE_NS);
		server->ending_at_ns = clock_ns() + PIECE_NS;
	}
	next = registry->state.ending ? server->ending_at_ns : INT64_MAX;
	registry_unlock(registry);
	return next;
}

/* End one session whose process has ended, or whose time to reconnect is over. false: there is
 * none. */
static bool end_dead_session(struct server *server)
{
	struct registry *registry = server->registry;
	struct session *session;
	uint32_t id;

	registry_lock(registry);
	if (!watch_next(&id))
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

	while (end_dead_session(server))
		;
	next = end_more(server);
	registry_lock(registry);
	next = clock_sooner(next, registry_rates(registry, clock_ns()));
	/* sends the notices that registry_rates() made */
	next = clock_sooner(next, asks_resume(registry));
	registry_unlock(registry);
	registry_lock(registry);
	now = clock_ns();
	next = clock_sooner(next, registry_expire(registry, now));
	next = clock_sooner(next, order_tick(registry, now));
	registry_unlock(registry);
	connections_kick(server);
	return next;
}

static int listen_on(struct server *server, const char *path)
{
	char url[sizeof("ipc://") + GPUSHARE_PATH_MAX];
	int result;

	snprintf(url, sizeof(url), "ipc://%s", path);
	if ((result = nng_aio_alloc(&server->accepting, on_accepted, server)) ||
	    (result = nng_aio_alloc(&server->kick, on_kick, server)) ||
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
	    .turns = PTHREAD_MUTEX_INITIALIZER,
	    .workers = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? WORKERS_MOST : 1,
	};
	registry->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (registry->wake < 0) {
		log_error("can't make a file descriptor to wait on: %s", strerror(errno));
		return false;
	}
	result = listen_on(server, path);
	if (result)
		log_error("can't listen on %s: %s", path, nng_strerror(result));
	return !result;
}
