/* SPDX-License-Identifier: MIT */
#include "events_server.h"

#include <errno.h>
#include <inttypes.h>
#include <nng/protocol/pubsub0/pub.h>
#include <nng/transport/ipc/ipc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "clock.h"
#include "listen.h"
#include "log.h"

/* Before the connection is listed: here, so that it can't have gone yet. */
static void on_connect(nng_pipe pipe, nng_pipe_ev event, void *argument)
{
	struct events_server *server = argument;
	struct registry *registry = server->registry;
	uint64_t pid = 0, uid = UINT64_MAX;
	bool entered = false;

	(void)event;
	if (!nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_UID, &uid) &&
	    !nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_PID, &pid) && pid == (uint64_t)getpid()) {
		eventfd_write(server->heard, 1); /* our own probe: nobody to tell anything */
		return;
	}
	if (uid == geteuid() || (registry->is_system && !uid)) {
		pthread_mutex_lock(&registry->lock);
		entered = events_enter(registry, (uint32_t)nng_pipe_id(pipe));
		pthread_mutex_unlock(&registry->lock);
	}
	log_line("%s: uid %" PRIu64 " pid %" PRIu64, entered ? "watch" : "refused to watch", uid,
		 pid);
	if (!entered)
		nng_pipe_close(pipe);
}

/* From now on what is sent goes there too. */
static void on_listed(nng_pipe pipe, nng_pipe_ev event, void *argument)
{
	struct registry *registry = ((struct events_server *)argument)->registry;

	(void)event;
	pthread_mutex_lock(&registry->lock);
	events_welcome(registry, (uint32_t)nng_pipe_id(pipe));
	pthread_mutex_unlock(&registry->lock);
}

static void on_disconnect(nng_pipe pipe, nng_pipe_ev event, void *argument)
{
	struct registry *registry = ((struct events_server *)argument)->registry;

	(void)event;
	pthread_mutex_lock(&registry->lock);
	events_leave(registry, (uint32_t)nng_pipe_id(pipe));
	pthread_mutex_unlock(&registry->lock);
}

/* nng 1.5.2 loses a message that it is sending in the moment in which that watcher goes. */
static void let_go(nng_msg *message)
{
	(void)message;
#ifdef __SANITIZE_ADDRESS__
	__lsan_ignore_object(message);
#endif
}

static void send_event(struct events_server *server, const struct event *event)
{
	nng_msg *message;

	if (nng_msg_alloc(&message, event->size))
		return;
	memcpy(nng_msg_body(message), event->bytes, event->size);
	let_go(message);
	if (nng_sendmsg(server->socket, message, 0))
		nng_msg_free(message);
}

static void *serve(void *argument)
{
	struct events_server *server = argument;
	struct registry *registry = server->registry;
	struct pollfd wake = {.fd = server->wake, .events = POLLIN};
	eventfd_t ignored;

	while (!atomic_load(&server->ending)) {
		struct event *event;
		int64_t due_ns;

		pthread_mutex_lock(&registry->lock);
		due_ns = events_due(registry, clock_ns());
		event = events_take(registry);
		pthread_mutex_unlock(&registry->lock);
		if (event)
			send_event(server, event);
		else if (poll(&wake, 1, clock_timeout_ms(due_ns)) > 0)
			eventfd_read(server->wake, &ignored);
		free(event);
	}
	return NULL;
}

static int open_socket(struct events_server *server, const char *path)
{
	int result = nng_pub0_open(&server->socket);

	if (!result)
		result = nng_socket_set_int(server->socket, NNG_OPT_SENDBUF, LIMIT_EVENTS);
	if (!result)
		result = nng_socket_set_size(server->socket, NNG_OPT_RECVMAXSZ, 1);
	if (!result)
		result = nng_pipe_notify(server->socket, NNG_PIPE_EV_ADD_PRE, on_connect, server);
	if (!result)
		result = nng_pipe_notify(server->socket, NNG_PIPE_EV_ADD_POST, on_listed, server);
	if (!result)
		result =
		    nng_pipe_notify(server->socket, NNG_PIPE_EV_REM_POST, on_disconnect, server);
	return result ? result : listen_start(server->socket, path);
}

bool events_server_open(struct events_server *server, struct registry *registry, const char *path)
{
	int result;

	*server = (struct events_server){
	    .registry = registry,
	    .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	    .heard = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (server->wake < 0 || server->heard < 0) {
		log_error("can't make a file descriptor to wait on: %s", strerror(errno));
	} else if ((result = open_socket(server, path))) {
		log_error("can't listen on %s: %s", path, nng_strerror(result));
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
	nng_close(server->socket);
	pthread_mutex_lock(&registry->lock);
	registry->events.wake = -1;
	pthread_mutex_unlock(&registry->lock);
	close(server->heard);
	close(server->wake);
}

void events_server_hear(struct events_server *server, const char *path)
{
	listen_hear(server->socket, path, SP_SUB, server->heard);
}
