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

#include "core/api_status.h"
#include "client/client_internal.h"
#include "base/monotonic.h"

#define ROOM (SP_HEADER_SIZE + SP_ID_SIZE + gpushare_Reply_size)
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
	    .reply = calloc(1, sizeof(*subscriber->reply)),
	};
	strcpy(subscriber->directory, directory);
	if (!subscriber->wire || !subscriber->reply) {
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
	if (subscriber->reply)
		subscriber->reply->which_body = 0;
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
	free(subscriber->reply);
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
			"what speaks at " GPUSHARE_SOCKET " in %s is no registry, or of a "
			"version that %s does not know",
			subscriber->directory, GPUSHARE_VERSION);
}

/* What connect() said; nobody there is no failure. */
static int explain_dial(const struct subscriber *subscriber, int error)
{
	if (error == ENOENT || error == ECONNREFUSED || error == EAGAIN)
		return GPUSHARE_E_TIMED_OUT;
	return api_fail(status_from_errno(error),
			GPUSHARE_SOCKET " in %s can't be connected to: %s", subscriber->directory,
			strerror(error));
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

static size_t put(struct subscriber *subscriber, uint8_t *to, const request *what)
{
	size_t size;

	codec_encode_request(what, to + SP_HEADER_SIZE + SP_ID_SIZE, gpushare_Request_size, &size);
	sp_header(to, ++subscriber->id, size);
	return SP_HEADER_SIZE + SP_ID_SIZE + size;
}

static size_t put_subscribe(struct subscriber *subscriber, uint8_t *to)
{
	static const request subscribe = {.which_verb = gpushare_Request_subscribe_tag};

	return put(subscriber, to, &subscribe);
}

/* All that there is to say, which a new socket takes at once. */
static bool greet(struct subscriber *subscriber)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};
	uint8_t *to = subscriber->wire; /* nothing is in it yet */
	size_t size = SP_GREETING_SIZE;

	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	strcpy(hello.verb.hello.client, "watch " GPUSHARE_VERSION);
	hello.verb.hello.has_self = true;
	client_self(&hello.verb.hello.self);
	sp_greeting(to, SP_REQ);
	size += put(subscriber, to + size, &hello);
	size += put_subscribe(subscriber, to + size);
	return send(subscriber->socket, to, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool ask_again(struct subscriber *subscriber)
{
	uint8_t wire[SP_HEADER_SIZE + SP_ID_SIZE + 16];
	size_t size = put_subscribe(subscriber, wire);

	return send(subscriber->socket, wire, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static int dial(struct subscriber *subscriber)
{
	char path[GPUSHARE_PATH_MAX], why[256];
	struct directory_trust trust;
	int fd, status = directory_check_trust(subscriber->directory, &trust, why, sizeof(why));
	struct stat is;

	if (status == GPUSHARE_E_NOT_FOUND)
		return GPUSHARE_E_TIMED_OUT;
	if (status)
		return api_fail(status, "%s", why);
	directory_socket(subscriber->directory, path);
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
	if (!greet(subscriber))
		return GPUSHARE_E_TIMED_OUT; /* it went at once */
	subscriber->reached = true;
	subscriber->due_ms = monotonic_ms() + subscriber->patience_ms;
	return GPUSHARE_OK;
}

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

/* The next frame of what is there. E_TIMED_OUT: it is not whole yet. */
static int parse(struct subscriber *subscriber, const uint8_t **out_body, size_t *out_size)
{
	size_t left;
	const uint8_t *at = rest_of(subscriber, &left);
	long size;

	if (!subscriber->greeted) {
		if (left < SP_GREETING_SIZE)
			return GPUSHARE_E_TIMED_OUT;
		if (!sp_greeting_is(at, SP_REP))
			return GPUSHARE_E_PROTOCOL;
		subscriber->greeted = true;
		subscriber->used += SP_GREETING_SIZE;
		at = rest_of(subscriber, &left);
	}
	if (left < SP_HEADER_SIZE)
		return GPUSHARE_E_TIMED_OUT;
	size = sp_header_body_size(at);
	if (size < 0 || size > (long)gpushare_Reply_size)
		return GPUSHARE_E_PROTOCOL;
	if (left < SP_HEADER_SIZE + SP_ID_SIZE + (size_t)size)
		return GPUSHARE_E_TIMED_OUT;
	*out_body = at + SP_HEADER_SIZE + SP_ID_SIZE;
	*out_size = (size_t)size;
	subscriber->used += SP_HEADER_SIZE + SP_ID_SIZE + (size_t)size;
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

/* Of the connection there is, one answer: to hello, or with notices. */
static int receive(struct subscriber *subscriber)
{
	const uint8_t *body;
	size_t size;
	int status;

	while ((status = parse(subscriber, &body, &size)) == GPUSHARE_E_TIMED_OUT) {
		status = fill(subscriber);
		if (status)
			return status;
	}
	subscriber->told = 0;
	if (status || codec_decode_reply(body, size, subscriber->reply))
		return GPUSHARE_E_PROTOCOL;
	if (subscriber->reply->status)
		return api_fail(subscriber->reply->status, "%s", subscriber->reply->message);
	if (subscriber->reply->which_body == gpushare_Reply_subscribe_tag && !ask_again(subscriber))
		shutdown(subscriber->socket, SHUT_RDWR); /* it has gone: what came is told before */
	return GPUSHARE_OK;
}

/* Notices that came and were not asked for yet. */
static bool has_told(const struct subscriber *subscriber)
{
	return subscriber->reply->which_body == gpushare_Reply_subscribe_tag &&
	       subscriber->told < subscriber->reply->body.subscribe.notices_count;
}

static const notice *take(struct subscriber *subscriber)
{
	return has_told(subscriber) ? &subscriber->reply->body.subscribe.notices[subscriber->told++]
				    : NULL;
}

/* Why there is none. */
static int unheard(struct subscriber *subscriber, int status)
{
	switch (status) {
	case GPUSHARE_E_PROTOCOL:
		return subscriber_refuse(subscriber);
	case GPUSHARE_E_NO_REGISTRY:
		rest(subscriber);
		return GPUSHARE_E_TIMED_OUT;
	case GPUSHARE_E_TIMED_OUT:
		if (!subscriber->heard && monotonic_ms() >= subscriber->due_ms)
			lose_patience(subscriber);
		return status;
	default: /* the registry has said why */
		rest(subscriber);
		return status;
	}
}

int subscriber_next(struct subscriber *subscriber, const notice **out_notice)
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
	while (!(*out_notice = take(subscriber))) {
		status = receive(subscriber);
		if (status)
			return unheard(subscriber, status);
	}
	subscriber->heard = true;
	subscriber->retry_ms = RETRY_MIN_MS;
	subscriber->patience_ms = CLIENT_PATIENCE_MS;
	return GPUSHARE_OK;
}

/* What is read, but wasn't asked for yet, whole or nonsense. */
static bool has_frame(const uint8_t *at, size_t left)
{
	long size = left < SP_HEADER_SIZE ? 0 : sp_header_body_size(at);

	return left >= SP_HEADER_SIZE &&
	       (size < 0 || left - SP_HEADER_SIZE >= SP_ID_SIZE + (size_t)size);
}

/* When subscriber_next() may know more though no socket says so; 0: now. */
static int64_t wake_ms(const struct subscriber *subscriber)
{
	size_t left;
	const uint8_t *at = rest_of(subscriber, &left);

	if (subscriber->socket < 0 || !subscriber->heard)
		return subscriber->due_ms;
	if (has_told(subscriber) || has_frame(at, left))
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
