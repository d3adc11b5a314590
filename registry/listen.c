/* SPDX-License-Identifier: MIT */
#include "listen.h"

#include <errno.h>
#include <nng/transport/ipc/ipc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "door.h"
#include "hash.h"
#include "log.h"
#include "protocol.h"

#define FRESH_SUFFIX ".new" /* of a socket that is about to take the old one's place */
#define REST_LOOKS 2	    /* in a row that find a listener without a connection */

/*
 * Those that were opened anew. nng 1.5.2 closes a listener's connections with it, whose processes
 * would lose what they share, and its reaper may wait for one of them for ever (work.c): so one
 * that another has followed is closed when it has had none for a while. The first of a socket is
 * never closed before that is: nng unlinks its path with it, which is the latest one's by then.
 */
struct fresh {
	nng_socket socket;
	nng_listener listener;
	unsigned int connections;
	unsigned int rests;
	bool followed;
	struct fresh *prev, *next;
};

static struct {
	pthread_mutex_t lock; /* never held over a call of nng's */
	struct fresh *list;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct fresh *fresh_find(int id)
{
	struct fresh *fresh;

	DL_FOREACH(all.list, fresh)
	{
		if (nng_listener_id(fresh->listener) == id)
			return fresh;
	}
	return NULL;
}

static struct fresh *fresh_add(nng_socket socket, nng_listener listener)
{
	struct fresh *fresh = calloc(1, sizeof(*fresh));

	if (!fresh)
		return NULL;
	fresh->socket = socket;
	fresh->listener = listener;
	pthread_mutex_lock(&all.lock);
	DL_APPEND(all.list, fresh);
	pthread_mutex_unlock(&all.lock);
	return fresh;
}

static void fresh_drop(struct fresh *fresh)
{
	pthread_mutex_lock(&all.lock);
	DL_DELETE(all.list, fresh);
	pthread_mutex_unlock(&all.lock);
	free(fresh);
}

void listen_note(nng_pipe pipe, nng_pipe_ev event)
{
	int id = nng_listener_id(nng_pipe_listener(pipe));
	struct fresh *fresh;

	pthread_mutex_lock(&all.lock);
	fresh = fresh_find(id);
	if (fresh && event == NNG_PIPE_EV_ADD_PRE)
		fresh->connections++;
	else if (fresh && event == NNG_PIPE_EV_REM_POST)
		fresh->connections--;
	pthread_mutex_unlock(&all.lock);
}

static bool is_at(const struct fresh *fresh, nng_socket socket)
{
	return nng_socket_id(fresh->socket) == nng_socket_id(socket);
}

/* One that nobody needs any more; NULL. */
static struct fresh *take_needless(nng_socket socket)
{
	struct fresh *fresh;

	pthread_mutex_lock(&all.lock);
	DL_FOREACH(all.list, fresh)
	{
		if (is_at(fresh, socket) && fresh->followed && fresh->rests >= REST_LOOKS)
			break;
	}
	if (fresh)
		DL_DELETE(all.list, fresh);
	pthread_mutex_unlock(&all.lock);
	return fresh;
}

static void close_needless(nng_socket socket)
{
	struct fresh *fresh;

	pthread_mutex_lock(&all.lock);
	DL_FOREACH(all.list, fresh)
	{
		if (is_at(fresh, socket))
			fresh->rests = fresh->connections ? 0 : fresh->rests + 1;
	}
	pthread_mutex_unlock(&all.lock);
	while ((fresh = take_needless(socket))) {
		nng_listener_close(fresh->listener);
		free(fresh);
	}
}

/* The others of that socket have one that follows them. */
static void follow(const struct fresh *latest)
{
	struct fresh *fresh;

	pthread_mutex_lock(&all.lock);
	DL_FOREACH(all.list, fresh)
	{
		if (fresh != latest && is_at(fresh, latest->socket))
			fresh->followed = true;
	}
	pthread_mutex_unlock(&all.lock);
}

static int make(nng_socket socket, const char *path, nng_listener *out_listener)
{
	char url[sizeof("ipc://") + GPUSHARE_PATH_MAX + 8];
	nng_listener made;
	int result;

	snprintf(url, sizeof(url), "ipc://%s", path);
	if ((result = nng_listener_create(&made, socket, url)))
		return result;
	result = nng_listener_set_int(made, NNG_OPT_IPC_PERMISSIONS, 0600);
	if (result)
		nng_listener_close(made);
	else
		*out_listener = made;
	return result;
}

static int start(nng_listener listener, const char *path)
{
	int result = nng_listener_start(listener, 0);

	return result || door_open(path) ? result : NNG_EPERM;
}

int listen_start(nng_socket socket, const char *path)
{
	nng_listener listener;
	int result = make(socket, path, &listener);

	if (!result && (result = start(listener, path)))
		nng_listener_close(listener);
	return result;
}

static int start_anew(nng_socket socket, const char *path)
{
	nng_listener listener;
	struct fresh *fresh;
	int result = make(socket, path, &listener);

	if (result)
		return result;
	fresh = fresh_add(socket, listener);
	result = fresh ? start(listener, path) : NNG_ENOMEM;
	if (!result) {
		follow(fresh);
		return 0;
	}
	nng_listener_close(listener);
	if (fresh)
		fresh_drop(fresh);
	return result;
}

void listen_hear(nng_socket socket, const char *path, uint16_t protocol, struct probe *probe)
{
	char fresh[GPUSHARE_PATH_MAX + 8];
	int result;

	close_needless(socket);
	if (probe_is_answered(probe, path, protocol))
		return;
	snprintf(fresh, sizeof(fresh), "%s%s", path, FRESH_SUFFIX);
	unlink(fresh);
	result = start_anew(socket, fresh);
	if (result || rename(fresh, path))
		log_error("%s does not answer and can't be opened anew: %s", path,
			  result ? nng_strerror(result) : strerror(errno));
	else
		log_line("%s did not answer: opened anew", path);
}
