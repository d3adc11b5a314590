/* SPDX-License-Identifier: MIT */
#include "api_subscriber.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "api_status.h"
#include "client_internal.h"
#include "monotonic.h"

#define ROOM (SP_HEADER_SIZE + GPUSHARE_MESSAGE_MAX)
#define RETRY_MIN_MS 5
#define RETRY_MAX_MS 100
#define PATIENCE_MAX_MS 4000

static bool watch_for(const struct subscriber *subscriber, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return !epoll_ctl(subscriber->events, EPOLL_CTL_ADD, fd, &event);
}

int subscriber_open(struct subscriber *subscriber, const char *directory)
{
	*subscriber = (struct subscriber){
	    .socket = -1,
	    .events = client_keep_clear(epoll_create1(EPOLL_CLOEXEC)),
	    .timer = client_keep_clear(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
	    .armed_ms = INT64_MAX,
	    .cancelling = PTHREAD_CANCEL_DISABLE,
	    .patience_ms = CLIENT_PATIENCE_MS,
	    .retry_ms = RETRY_MIN_MS,
	    .wire = malloc(ROOM),
	};
	strcpy(subscriber->directory, directory);
	if (!subscriber->wire) {
		subscriber_close(subscriber, true);
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to watch %s", directory);
	}
	if (subscriber->events < 0 || subscriber->timer < 0 ||
	    !watch_for(subscriber, subscriber->timer)) {
		int error = errno;

		subscriber_close(subscriber, true);
		return api_fail(GPUSHARE_E_LIMIT, "no file descriptors to watch %s with: %s",
				directory, strerror(error));
	}
	return GPUSHARE_OK;
}

/* A program may have closed it, and put one of its own there. */
static bool is_ours(const struct subscriber *subscriber)
{
	struct stat is;

	return subscriber->socket >= 0 && !fstat(subscriber->socket, &is) &&
	       is.st_dev == subscriber->device && is.st_ino == subscriber->inode;
}

/* A forked child may hold the connection open, and so would epoll. */
static void hang_up(struct subscriber *subscriber)
{
	if (is_ours(subscriber)) {
		epoll_ctl(subscriber->events, EPOLL_CTL_DEL, subscriber->socket, NULL);
		shutdown(subscriber->socket, SHUT_RDWR);
		close(subscriber->socket);
	}
	subscriber->socket = -1;
	subscriber->greeted = subscriber->heard = false;
	subscriber->have = subscriber->used = 0;
}

void subscriber_close(struct subscriber *subscriber, bool ours)
{
	if (ours)
		hang_up(subscriber);
	else if (is_ours(subscriber))
		close(subscriber->socket);
	if (subscriber->timer >= 0)
		close(subscriber->timer);
	if (subscriber->events >= 0)
		close(subscriber->events);
	free(subscriber->wire);
}

/* Dial again in a while, which is the longer the more often that was in vain. */
static void rest(struct subscriber *subscriber)
{
	hang_up(subscriber);
	subscriber->due_ms = monotonic_ms() + subscriber->retry_ms;
	subscriber->retry_ms *= 2;
	if (subscriber->retry_ms > RETRY_MAX_MS)
		subscriber->retry_ms = RETRY_MAX_MS;
}

int subscriber_refuse(struct subscriber *subscriber)
{
	rest(subscriber);
	return api_fail(GPUSHARE_E_PROTOCOL,
			"what speaks at " GPUSHARE_EVENTS_SOCKET " in %s is no registry, or of a "
			"version that %s does not know",
			subscriber->directory, GPUSHARE_VERSION);
}

/* What connect() said; nobody there is no failure. */
static int explain_dial(const struct subscriber *subscriber, int error)
{
	if (error == ENOENT || error == ECONNREFUSED || error == EAGAIN)
		return GPUSHARE_E_TIMED_OUT;
	return api_fail(status_from_errno(error),
			GPUSHARE_EVENTS_SOCKET " in %s can't be connected to: %s",
			subscriber->directory, strerror(error));
}

static int check_peer(struct subscriber *subscriber, const struct directory_trust *trust)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (!getsockopt(subscriber->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
	    directory_is_served_by(trust, peer.uid))
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_DENIED,
			"the registry in %s runs as another user than the directory's; set "
			"GPUSHARE_DIR to a directory of yours",
			subscriber->directory);
}

/* Connect and greet: a socket of ours takes eight bytes at once. */
static int dial(struct subscriber *subscriber)
{
	char path[GPUSHARE_PATH_MAX], why[256];
	uint8_t greeting[SP_GREETING_SIZE];
	struct directory_trust trust;
	int fd, status = directory_check_trust(subscriber->directory, &trust, why, sizeof(why));
	struct stat is;

	if (status == GPUSHARE_E_NOT_FOUND)
		return GPUSHARE_E_TIMED_OUT;
	if (status)
		return api_fail(status, "%s", why);
	directory_events_socket(subscriber->directory, path);
	fd = client_dial(path, SOCK_STREAM);
	if (fd < 0)
		return explain_dial(subscriber, -fd);
	if (fstat(fd, &is) || !watch_for(subscriber, fd)) {
		status = status_from_errno(errno);
		close(fd);
		return api_fail(status, "a connection to %s can't be watched", path);
	}
	subscriber->socket = fd;
	subscriber->device = is.st_dev;
	subscriber->inode = is.st_ino;
	status = check_peer(subscriber, &trust);
	if (status)
		return status;
	sp_greeting(greeting, SP_SUB);
	if (send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting))
		return GPUSHARE_E_TIMED_OUT; /* it went at once */
	subscriber->reached = true;
	subscriber->due_ms = monotonic_ms() + subscriber->patience_ms;
	return GPUSHARE_OK;
}

/* A listener of nng 1.5.2 can go deaf, and the registry then opens another: client.c. */
static void lose_patience(struct subscriber *subscriber)
{
	subscriber->patience_ms *= 2;
	if (subscriber->patience_ms > PATIENCE_MAX_MS)
		subscriber->patience_ms = PATIENCE_MAX_MS;
	rest(subscriber);
}

/* What is left to read, from where on. */
static uint8_t *rest_of(const struct subscriber *subscriber, size_t *out_size)
{
	*out_size = subscriber->have - subscriber->used;
	return subscriber->wire + subscriber->used;
}

/* From what is there. E_TIMED_OUT: it is not whole yet. */
static int parse(struct subscriber *subscriber, const uint8_t **out_body, size_t *out_size)
{
	size_t left;
	const uint8_t *at = rest_of(subscriber, &left);
	long size;

	if (!subscriber->greeted) {
		if (left < SP_GREETING_SIZE)
			return GPUSHARE_E_TIMED_OUT;
		if (!sp_greeting_is(at, SP_PUB))
			return GPUSHARE_E_PROTOCOL;
		subscriber->greeted = true;
		subscriber->used += SP_GREETING_SIZE;
		at = rest_of(subscriber, &left);
	}
	if (left < SP_HEADER_SIZE)
		return GPUSHARE_E_TIMED_OUT;
	size = sp_header_size(at);
	if (size < 0)
		return GPUSHARE_E_PROTOCOL;
	if (left < SP_HEADER_SIZE + (size_t)size)
		return GPUSHARE_E_TIMED_OUT;
	*out_body = at + SP_HEADER_SIZE;
	*out_size = (size_t)size;
	return GPUSHARE_OK;
}

/* Read once. E_TIMED_OUT: there is nothing; E_NO_REGISTRY: nor will there be. */
static int fill(struct subscriber *subscriber)
{
	size_t left;
	const uint8_t *at = rest_of(subscriber, &left);
	ssize_t got;

	memmove(subscriber->wire, at, left);
	subscriber->have = left;
	subscriber->used = 0;
	if (!is_ours(subscriber))
		return GPUSHARE_E_NO_REGISTRY;
	do
		got = recv(subscriber->socket, subscriber->wire + left, ROOM - left, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		subscriber->have += (size_t)got;
	else if (got < 0 && errno == EAGAIN)
		return GPUSHARE_E_TIMED_OUT;
	return got > 0 ? GPUSHARE_OK : GPUSHARE_E_NO_REGISTRY;
}

/* Of the connection there is. */
static int receive(struct subscriber *subscriber, const uint8_t **out_body, size_t *out_size)
{
	for (;;) {
		int status = parse(subscriber, out_body, out_size);

		if (status != GPUSHARE_E_TIMED_OUT)
			return status;
		status = fill(subscriber);
		if (status)
			return status;
	}
}

int subscriber_next(struct subscriber *subscriber, const uint8_t **out_body, size_t *out_size)
{
	int status = GPUSHARE_OK;

	if (subscriber->socket < 0) {
		if (monotonic_ms() < subscriber->due_ms)
			return GPUSHARE_E_TIMED_OUT;
		status = dial(subscriber);
	}
	if (status) {
		rest(subscriber);
		return status;
	}
	status = receive(subscriber, out_body, out_size);
	if (status == GPUSHARE_E_PROTOCOL)
		return subscriber_refuse(subscriber);
	if (status == GPUSHARE_E_NO_REGISTRY) {
		rest(subscriber);
		return GPUSHARE_E_TIMED_OUT;
	}
	if (!status) {
		subscriber->used += SP_HEADER_SIZE + *out_size;
		subscriber->heard = true;
		subscriber->retry_ms = RETRY_MIN_MS;
		subscriber->patience_ms = CLIENT_PATIENCE_MS;
	} else if (!subscriber->heard && monotonic_ms() >= subscriber->due_ms) {
		lose_patience(subscriber);
	}
	return status;
}

/* When subscriber_next() may know more though no socket says so; 0: now. */
static int64_t wake_ms(const struct subscriber *subscriber)
{
	size_t left;
	const uint8_t *at = rest_of(subscriber, &left);

	if (subscriber->socket < 0 || !subscriber->heard)
		return subscriber->due_ms;
	/* What is read, but wasn't asked for yet, whole or nonsense. */
	if (left >= SP_HEADER_SIZE && (long)(left - SP_HEADER_SIZE) >= sp_header_size(at))
		return 0;
	return INT64_MAX;
}

void subscriber_settle(struct subscriber *subscriber, bool more)
{
	int64_t at_ms = more ? 0 : wake_ms(subscriber);
	struct itimerspec at = {.it_value = {at_ms / 1000, at_ms % 1000 * 1000000}};

	if (at_ms == subscriber->armed_ms)
		return;
	if (!at_ms)
		at.it_value.tv_nsec = 1;
	if (at_ms == INT64_MAX)
		at.it_value = (struct timespec){0};
	timerfd_settime(subscriber->timer, TFD_TIMER_ABSTIME, &at, NULL);
	subscriber->armed_ms = at_ms;
}

int subscriber_wait(struct subscriber *subscriber, int64_t deadline_ms)
{
	int status, before;

	subscriber_settle(subscriber, false);
	pthread_setcancelstate(subscriber->cancelling, &before);
	status = client_wait(subscriber->events, POLLIN, deadline_ms);
	pthread_setcancelstate(before, NULL);
	if (status == GPUSHARE_E_IO)
		return api_fail(status, "waiting for notices failed: %s", strerror(errno));
	return status;
}
