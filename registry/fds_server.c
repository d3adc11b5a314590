/* SPDX-License-Identifier: MIT */
#include "fds_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "door.h"
#include "fds_answer.h"
#include "log.h"
#include "watch.h"

#define DEAF_MS 100 /* between two looks for a descriptor that a connection could have */

struct call {
	int fd;
	struct guest *guest;
	int64_t deadline_ns;
	struct call *prev, *next;
};

/* The peer hears of it at once. What is still in the queue may take long to close. */
static void connection_end(const struct fds_server *server, int fd, uint32_t uid)
{
	shutdown(fd, SHUT_RDWR);
	fds_refuse(server->registry, uid, &fd, 1);
}

static void connection_close(struct fds_server *server, struct call *connection)
{
	struct registry *registry = server->registry;

	DL_DELETE(server->connections, connection);
	server->count--;
	/* A keeper that is being started may hold it open a little longer, and so would epoll. */
	epoll_ctl(server->events, EPOLL_CTL_DEL, connection->fd, NULL);
	connection_end(server, connection->fd, connection->guest->peer.uid);
	pthread_mutex_lock(&registry->lock);
	vault_leave(&registry->vault, connection->guest);
	pthread_mutex_unlock(&registry->lock);
	free(connection);
}

static void connection_read(struct fds_server *server, struct call *connection)
{
	enum fds_outcome outcome = fds_answer(server->registry, connection->guest, connection->fd);

	if (outcome == FDS_CLOSE) {
		connection_close(server, connection);
		return;
	}
	if (outcome == FDS_LEAVE) {
		log_line("pid %d takes over", connection->guest->peer.pid);
		eventfd_write(server->leave, 1);
	}
	DL_DELETE(server->connections, connection);
	connection->deadline_ns = clock_ns() + LIMIT_FDS_SILENT_MS * NS_PER_MS;
	DL_APPEND(server->connections, connection);
}

/* Whose connection it is, who may have others and tickets. NULL: nobody that we serve. */
static struct guest *admit(struct fds_server *server, int fd)
{
	struct registry *registry = server->registry;
	struct ucred ucred = {0};
	socklen_t size = sizeof(ucred);
	struct process peer;
	struct guest *guest;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) ||
	    (ucred.uid != geteuid() && !registry->is_system)) {
		log_line("refused at %s: uid %u pid %d", GPUSHARE_FDS_SOCKET, ucred.uid, ucred.pid);
		pthread_mutex_lock(&registry->lock);
		registry->counts.drops[DROP_stranger]++;
		audit_stranger(registry, ucred.uid, ucred.pid);
		pthread_mutex_unlock(&registry->lock);
		return NULL;
	}
	process_read(ucred.pid, ucred.uid, &peer);
	pthread_mutex_lock(&registry->lock);
	guest = vault_enter(&registry->vault, &peer);
	if (guest && guest->watch < 0) {
		guest->watch = watch_add(server->watches, peer.pid, guest->id);
		guest->ended = guest->watch < 0 && peer.pid > 0 && errno == ESRCH;
	}
	pthread_mutex_unlock(&registry->lock);
	return guest;
}

/* Where several users are served none takes more than his part of the places. */
static bool is_crowd(const struct fds_server *server, uint32_t uid)
{
	const struct call *other;
	unsigned int count = 0;

	if (!server->registry->is_system)
		return false;
	DL_FOREACH(server->connections, other)
	{
		count += other->guest->peer.uid == uid;
	}
	return count >= LIMIT_FDS_CONNECTIONS / 4;
}

static bool connection_new(struct fds_server *server, int fd)
{
	struct call *connection = calloc(1, sizeof(*connection));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

	if (!connection)
		return false;
	connection->fd = fd;
	connection->guest = admit(server, fd);
	if (connection->guest && is_crowd(server, connection->guest->peer.uid)) {
		pthread_mutex_lock(&server->registry->lock);
		server->registry->counts.drops[DROP_crowd]++;
		audit_refused(server->registry, &connection->guest->peer, "connect",
			      GPUSHARE_E_LIMIT);
		vault_leave(&server->registry->vault, connection->guest);
		pthread_mutex_unlock(&server->registry->lock);
		connection->guest = NULL;
	}
	if (!connection->guest) {
		free(connection);
		return false;
	}
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
	struct ucred ucred = {0};
	socklen_t size = sizeof(ucred);

	if (fd < 0) {
		/* Asked at once again, it would say the same: EMFILE, ENFILE, ENOBUFS, ENOMEM. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			listen_again(server, false);
		return;
	}
	if (server->count < LIMIT_FDS_CONNECTIONS && connection_new(server, fd))
		return;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size);
	connection_end(server, fd, ucred.uid);
}

/* What has become due; when to look again. */
static int64_t tick(struct fds_server *server)
{
	struct registry *registry = server->registry;
	struct held *unneeded;
	int64_t now = clock_ns(), next;
	uint64_t silent = 0;
	uint32_t dead;

	while (server->connections && server->connections->deadline_ns <= now) {
		connection_close(server, server->connections);
		silent++;
	}
	if (server->deaf_until_ns && server->deaf_until_ns <= now)
		listen_again(server, true);

	pthread_mutex_lock(&registry->lock);
	registry->counts.drops[DROP_silent] += silent;
	while (watch_next(server->watches, &dead))
		vault_bury(&registry->vault, dead);
	next = vault_expire(&registry->vault, now);
	unneeded = vault_take_unneeded(&registry->vault);
	pthread_mutex_unlock(&registry->lock);

	held_close(unneeded);
	if (server->connections && server->connections->deadline_ns < next)
		next = server->connections->deadline_ns;
	if (server->deaf_until_ns && server->deaf_until_ns < next)
		next = server->deaf_until_ns;
	return next;
}

/* One event a turn: what it is about can't have gone meanwhile. */
static void *serve(void *argument)
{
	struct fds_server *server = argument;
	struct epoll_event event;
	eventfd_t ignored;

	while (!atomic_load(&server->ending)) {
		int timeout_ms = clock_timeout_ms(tick(server));

		if (epoll_wait(server->events, &event, 1, timeout_ms) != 1)
			continue;
		if (event.data.ptr == server)
			accept_one(server);
		else if (event.data.ptr == &server->wake)
			eventfd_read(server->wake, &ignored);
		else if (event.data.ptr != &server->watches) /* those are for the next tick */
			connection_read(server, event.data.ptr);
	}
	return NULL;
}

static bool add(const struct fds_server *server, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return fd >= 0 && !epoll_ctl(server->events, EPOLL_CTL_ADD, fd, &event);
}

bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path)
{
	*server = (struct fds_server){
	    .registry = registry,
	    .listener = door_listen(path, SOCK_SEQPACKET),
	    .events = epoll_create1(EPOLL_CLOEXEC),
	    .watches = watch_open(),
	    .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	    .leave = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (server->leave < 0 || !add(server, server->listener, server) ||
	    !add(server, server->watches, &server->watches) ||
	    !add(server, server->wake, &server->wake)) {
		log_error("can't listen on %s: %s", path, strerror(errno));
	} else {
		registry->vault.wake = server->wake; /* nobody else knows the registry yet */
		errno = pthread_create(&server->thread, NULL, serve, server);
		if (!errno)
			return true;
		log_error("can't start a thread for %s: %s", path, strerror(errno));
	}
	registry->vault.wake = -1;
	atomic_store(&server->ending, true);
	fds_server_close(server);
	return false;
}

void fds_server_close(struct fds_server *server)
{
	struct registry *registry = server->registry;

	if (!atomic_exchange(&server->ending, true)) {
		eventfd_write(server->wake, 1);
		pthread_join(server->thread, NULL);
	}
	while (server->connections)
		connection_close(server, server->connections);
	pthread_mutex_lock(&registry->lock);
	registry->vault.wake = -1;
	pthread_mutex_unlock(&registry->lock);
	fds_close(
	    (int[]){server->listener, server->events, server->watches, server->wake, server->leave},
	    5);
}
