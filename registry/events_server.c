/* SPDX-License-Identifier: MIT */
#include "events_server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "door.h"
#include "audit.h"
#include "log.h"
#include "spectator.h"

#define TOLD_AT_ONCE 64
#define FULL_MS 10    /* before another look for a descriptor that a connection could have */
#define LOOK_MS 500   /* from one look for slow watchers to the next */
#define READS_TIMES 6 /* as long as others a watcher has to read */

static void let_go(struct events_server *server, struct spectator *spectator)
{
	struct registry *registry = server->registry;

	DL_DELETE(server->spectators, spectator);
	epoll_ctl(server->events, EPOLL_CTL_DEL, spectator->fd, NULL);
	pthread_mutex_lock(&registry->lock);
	events_leave(registry, spectator->id);
	user_closes(spectator->user);
	pthread_mutex_unlock(&registry->lock);
	spectator_free(spectator);
}

static void look_soon(struct events_server *server)
{
	if (server->look_ns == INT64_MAX)
		server->look_ns = clock_ns() + LOOK_MS * NS_PER_MS;
}

/* Its socket is asked for room while something waits for that. */
static void send_to(struct events_server *server, struct spectator *spectator)
{
	bool was_full = spectator->is_full;
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = spectator};

	if (!spectator_send(spectator)) {
		let_go(server, spectator);
		return;
	}
	if (spectator->is_full == was_full)
		return;
	look_soon(server);
	event.events |= spectator->is_full ? EPOLLOUT : 0;
	epoll_ctl(server->events, EPOLL_CTL_MOD, spectator->fd, &event);
}

static void hear(struct events_server *server, struct spectator *spectator)
{
	struct registry *registry = server->registry;
	bool was_greeted = spectator_is_greeted(spectator);

	if (!spectator_hear(spectator)) {
		let_go(server, spectator);
		return;
	}
	if (was_greeted || !spectator_is_greeted(spectator))
		return;
	pthread_mutex_lock(&registry->lock);
	events_welcome(registry, spectator->id);
	pthread_mutex_unlock(&registry->lock);
}

/* Who it is; false: nobody that we serve. */
static bool identify(const struct events_server *server, int fd, struct process *out_peer,
		     struct identity *out_who)
{
	struct ucred ucred = {.uid = UINT32_MAX};
	socklen_t size = sizeof(ucred);
	bool served = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) &&
		      (ucred.uid == geteuid() || server->registry->is_system);

	if (!served) {
		pthread_mutex_lock(&server->registry->lock);
		server->registry->counts.drops[DROP_stranger]++;
		audit_stranger(server->registry, ucred.uid, ucred.pid);
		pthread_mutex_unlock(&server->registry->lock);
	} else {
		process_read(ucred.pid, ucred.uid, out_peer);
		identity_read(out_who, out_peer, ucred.gid);
	}
	log_line("%s: uid %u pid %d", served ? "watch" : "refused to watch", ucred.uid, ucred.pid);
	return served;
}

static void admit(struct events_server *server, int fd)
{
	struct registry *registry = server->registry;
	struct epoll_event event = {.events = EPOLLIN};
	struct spectator *spectator = NULL;
	uint32_t id = ++server->last_id;
	struct identity who = {.uid = 0};
	struct user *user = NULL;
	struct process peer;
	bool entered = false;

	if (identify(server, fd, &peer, &who)) {
		pthread_mutex_lock(&registry->lock);
		user = user_opens(registry, who.uid);
		entered = user && events_enter(registry, id, who.uid);
		if (user && !entered)
			audit_refused(registry, &peer, "watch", GPUSHARE_E_LIMIT);
		pthread_mutex_unlock(&registry->lock);
	}
	if (entered)
		spectator = spectator_new(fd, id, &who);
	if (spectator) {
		spectator->user = user;
		look_soon(server);
		DL_APPEND(server->spectators, spectator);
		event.data.ptr = spectator;
		if (epoll_ctl(server->events, EPOLL_CTL_ADD, fd, &event))
			let_go(server, spectator);
		return;
	}
	identity_finish(&who);
	close(fd);
	if (!user)
		return;
	pthread_mutex_lock(&registry->lock);
	if (entered)
		events_leave(registry, id);
	user_closes(user);
	pthread_mutex_unlock(&registry->lock);
}

static void accept_one(struct events_server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		admit(server, fd);
	else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		poll(NULL, 0, FULL_MS);
}

/* To those who have greeted: before, it is not what they speak. */
static void tell_all(struct events_server *server, struct event *event)
{
	struct spectator *spectator, *after;

	DL_FOREACH_SAFE(server->spectators, spectator, after)
	{
		if (!spectator_is_greeted(spectator))
			continue;
		spectator_tell(spectator, event);
		if (!spectator->is_full)
			send_to(server, spectator);
	}
	event_release(event);
}

/* What waits, before the sockets are looked at again; when the next tick is due. */
static int64_t send_waiting(struct events_server *server)
{
	struct registry *registry = server->registry;
	struct event *event;
	unsigned int left = TOLD_AT_ONCE;
	int64_t due_ns;

	do {
		pthread_mutex_lock(&registry->lock);
		due_ns = events_due(registry, clock_ns());
		event = events_take(registry);
		pthread_mutex_unlock(&registry->lock);
		if (event)
			tell_all(server, event);
	} while (event && --left);
	return event ? 0 : due_ns;
}

/* Why it is to be let go of; DROP_KINDS: it isn't. */
static enum drop is_slow(const struct spectator *spectator, int64_t silent_ns, int64_t now_ns)
{
	if (!spectator_is_greeted(spectator))
		return now_ns - spectator->begun_ns > silent_ns ? DROP_silent : DROP_KINDS;
	return spectator->is_full && now_ns - spectator->full_ns > READS_TIMES * silent_ns
		   ? DROP_deaf
		   : DROP_KINDS;
}

static void drop_slow(struct events_server *server)
{
	struct registry *registry = server->registry;
	struct spectator *spectator, *after;
	int64_t now_ns = clock_ns();

	if (now_ns < server->look_ns)
		return;
	server->look_ns = INT64_MAX;
	DL_FOREACH_SAFE(server->spectators, spectator, after)
	{
		enum drop why = is_slow(spectator, registry->limits.silent_ns, now_ns);

		if (why != DROP_KINDS) {
			log_line("dropped: uid %u, it %s", spectator->who.uid,
				 why == DROP_silent ? "said nothing" : "did not read");
			pthread_mutex_lock(&registry->lock);
			registry->counts.drops[why]++;
			pthread_mutex_unlock(&registry->lock);
			let_go(server, spectator);
		} else if (!spectator_is_greeted(spectator) || spectator->is_full) {
			look_soon(server);
		}
	}
}

/* One event a turn: what it is about can't have gone meanwhile. */
static void *serve(void *argument)
{
	struct events_server *server = argument;
	struct epoll_event event;
	eventfd_t ignored;

	while (!atomic_load(&server->ending)) {
		int64_t due_ns = send_waiting(server);
		struct spectator *spectator;

		drop_slow(server);
		due_ns = due_ns < server->look_ns ? due_ns : server->look_ns;
		if (epoll_wait(server->events, &event, 1, clock_timeout_ms(due_ns)) != 1)
			continue;
		if (event.data.ptr == server) {
			accept_one(server);
			continue;
		}
		if (event.data.ptr == &server->wake) {
			eventfd_read(server->wake, &ignored);
			continue;
		}
		spectator = event.data.ptr;
		if (event.events & ~(uint32_t)EPOLLOUT)
			hear(server, spectator);
		else
			send_to(server, spectator);
	}
	return NULL;
}

static bool add(const struct events_server *server, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return fd >= 0 && !epoll_ctl(server->events, EPOLL_CTL_ADD, fd, &event);
}

bool events_server_open(struct events_server *server, struct registry *registry, const char *path)
{
	*server = (struct events_server){
	    .registry = registry,
	    .look_ns = INT64_MAX,
	    .listener = door_listen(path, SOCK_STREAM),
	    .events = epoll_create1(EPOLL_CLOEXEC),
	    .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (!add(server, server->listener, server) || !add(server, server->wake, &server->wake)) {
		log_error("can't listen on %s: %s", path, strerror(errno));
	} else {
		pthread_mutex_lock(&registry->lock);
		registry->events.wake = server->wake;
		pthread_mutex_unlock(&registry->lock);
		errno = pthread_create(&server->thread, NULL, serve, server);
		if (!errno)
			return true;
		log_error("can't start a thread for %s: %s", path, strerror(errno));
	}
	atomic_store(&server->ending, true);
	events_server_close(server);
	return false;
}

void events_server_close(struct events_server *server)
{
	struct registry *registry = server->registry;

	if (!atomic_exchange(&server->ending, true)) {
		eventfd_write(server->wake, 1);
		pthread_join(server->thread, NULL);
	}
	while (server->spectators)
		let_go(server, server->spectators);
	pthread_mutex_lock(&registry->lock);
	registry->events.wake = -1;
	pthread_mutex_unlock(&registry->lock);
	fds_close((int[]){server->listener, server->events, server->wake}, 3);
}
