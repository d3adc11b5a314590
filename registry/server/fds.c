/* SPDX-License-Identifier: MIT */
#include "server/fds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/socket_access.h"
#include "os/log.h"

#define DEAF_MS 100 /* between two looks for a descriptor that a connection could have */
#define RUN_MOST 64 /* messages and connections until the main loop looks around again */

/* The peer hears of it at once. What is still in the queue may take long to close. */
static void refuse(const struct fds_server *server, int fd, uint32_t uid)
{
	shutdown(fd, SHUT_RDWR);
	fds_refuse(server->registry, uid, &fd, 1);
}

static void connection_close(struct fds_server *server, struct fds_connection *connection)
{
	DL_DELETE(server->connections, connection);
	server->count--;
	/* A keeper that is being started may hold it open a little longer, and so would epoll. */
	epoll_ctl(server->events, EPOLL_CTL_DEL, connection->fd, NULL);
	refuse(server, connection->fd, connection->uid);
	free(connection);
}

static void connection_read(struct fds_server *server, struct fds_connection *connection)
{
	if (!fds_answer(server, connection)) {
		connection_close(server, connection);
		return;
	}
	DL_DELETE(server->connections, connection);
	connection->deadline_ns = clock_ns() + LIMIT_FDS_SILENT_MS * NS_PER_MS;
	DL_APPEND(server->connections, connection);
}

static void refuse_peer(struct registry *registry, const struct ucred *peer, enum drop why,
			int status)
{
	struct process process;

	process_read(peer->pid, peer->uid, &process);
	log_line("refused at %s: uid %u pid %d: %s", GPUSHARE_FDS_SOCKET, peer->uid, peer->pid,
		 status_text(status));
	registry_lock(registry);
	registry->counts.drops[why]++;
	audit_refused(&registry->audit, &process, "connect", status);
	registry_unlock(registry);
}

/* Where several users are served none takes more than his part of the places. */
static bool is_crowd(const struct fds_server *server, const struct ucred *peer)
{
	const struct fds_connection *other;
	unsigned int count = 0;

	if (!server->registry->is_system)
		return false;
	DL_FOREACH(server->connections, other)
	{
		count += other->uid == peer->uid;
	}
	return count >= LIMIT_FDS_CONNECTIONS / 4;
}

static bool connection_new(struct fds_server *server, int fd, const struct ucred *peer)
{
	struct fds_connection *connection;
	struct epoll_event event = {.events = EPOLLIN};

	if (peer->uid != geteuid() && !server->registry->is_system) {
		refuse_peer(server->registry, peer, DROP_stranger, GPUSHARE_E_DENIED);
		return false;
	}
	if (is_crowd(server, peer)) {
		refuse_peer(server->registry, peer, DROP_crowd, GPUSHARE_E_LIMIT);
		return false;
	}
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return false;
	event.data.ptr = connection;
	connection->fd = fd;
	connection->pid = peer->pid;
	connection->uid = peer->uid;
	connection->deadline_ns = clock_ns() + LIMIT_FDS_SILENT_MS * NS_PER_MS;
	DL_APPEND(server->connections, connection);
	server->count++;
	if (epoll_ctl(server->events, EPOLL_CTL_ADD, fd, &event))
		connection_close(server, connection); /* and the fd with it */
	return true;
}

/* The listener has no data.ptr of a connection: it is told from them by the server's address. */
static bool listen_again(struct fds_server *server, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = server};

	server->deaf_until_ns = on ? 0 : clock_ns() + DEAF_MS * NS_PER_MS;
	return !epoll_ctl(server->events, EPOLL_CTL_MOD, server->listener, &event);
}

static void accept_one(struct fds_server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);

	if (fd < 0) {
		/* Asked at once again, it would say the same: EMFILE, ENFILE, ENOBUFS, ENOMEM. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			listen_again(server, false);
		return;
	}
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	if (server->count >= LIMIT_FDS_CONNECTIONS || !connection_new(server, fd, &peer))
		refuse(server, fd, peer.uid);
}

/* One event a turn: what it is about can't have gone meanwhile. */
void fds_server_run(struct fds_server *server)
{
	struct epoll_event event;

	for (int i = 0; i < RUN_MOST && epoll_wait(server->events, &event, 1, 0) == 1; i++) {
		if (event.data.ptr == server)
			accept_one(server);
		else
			connection_read(server, event.data.ptr);
	}
}

int64_t fds_server_tick(struct fds_server *server)
{
	struct registry *registry = server->registry;
	int64_t now = clock_ns(), next = INT64_MAX;
	uint64_t silent = 0;

	while (server->connections && server->connections->deadline_ns <= now) {
		connection_close(server, server->connections);
		silent++;
	}
	if (silent) {
		registry_lock(registry);
		registry->counts.drops[DROP_silent] += silent;
		registry_unlock(registry);
	}
	if (server->deaf_until_ns && server->deaf_until_ns <= now)
		listen_again(server, true);
	if (server->connections)
		next = server->connections->deadline_ns;
	if (server->deaf_until_ns && server->deaf_until_ns < next)
		next = server->deaf_until_ns;
	return next;
}

bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = server};

	*server = (struct fds_server){
	    .registry = registry,
	    .listener = socket_access_listen(path, SOCK_SEQPACKET),
	    .events = epoll_create1(EPOLL_CLOEXEC),
	};
	if (server->listener >= 0 && server->events >= 0 &&
	    !epoll_ctl(server->events, EPOLL_CTL_ADD, server->listener, &event))
		return true;
	log_error("can't listen on %s: %s", path, strerror(errno));
	fds_server_close(server);
	return false;
}

void fds_server_close(struct fds_server *server)
{
	while (server->connections)
		connection_close(server, server->connections);
	if (server->listener >= 0)
		close(server->listener);
	if (server->events >= 0)
		close(server->events);
}
