/* SPDX-License-Identifier: MIT */
/* Watches: the registry's notices, with gaps and registry restarts detected and names filtered. */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "api_session.h"
#include "base/fork_check.h"
#include "base/monotonic.h"
#include "client/client_internal.h"

#define TAKE_MAX 1024	/* notices that the filter drops before the deadline is checked again */
#define RETRY_MS 50	/* before connecting again */
#define PATIENCE_MS 500 /* for a connection's greeting: see open_in_time() in client.c */

/*
 * A watch has a client of its own. Its calls never block, because their deadlines have passed
 * already. If the connection is lost, the client connects again. One Subscribe request is always
 * pending, so that the registry has a request to answer with notices.
 */
struct gpushare_watch {
	int pid;			  /* process that opened it, for messages */
	unsigned int process;		  /* fork_check_number() of that process */
	char glob[GPUSHARE_NAME_MAX + 1]; /* "": all names */
	struct client *client;
	int timer;	  /* in client->events, as the client's socket is */
	int64_t armed_ms; /* when the timer fires; 0: at once; INT64_MAX: never */
	/* When to connect; once connected, when to give up a connection without a greeting. */
	int64_t due_ms;
	/* The caller's cancellation state: wait_until() restores it, because a wait may never
	 * end. */
	int cancelling;
	bool reached;		   /* a connect has succeeded at least once */
	uint32_t asked;		   /* id of the pending Subscribe; 0: none */
	pb_size_t came, taken;	   /* notices in client->reply: received, processed */
	uint64_t registry, serial; /* of the latest notice; 0: none so far */
	uint64_t unix_ns;	   /* time of that notice */
	/* what gpushare_watch_next() has to deliver: */
	uint64_t lost;
	bool restarted;
	const notice *pending; /* in client->reply; NULL: none */
};

/* Disconnect, and connect again after a delay. */
static void hang_up(struct gpushare_watch *watch)
{
	client_disconnect(watch->client);
	watch->asked = 0;
	watch->came = watch->taken = 0;
	watch->due_ms = monotonic_ms() + RETRY_MS;
}

static int refuse(struct gpushare_watch *watch)
{
	hang_up(watch);
	return api_fail(GPUSHARE_E_PROTOCOL,
			"the program at " GPUSHARE_SOCKET
			" in %s is not a registry, or has a version "
			"that %s does not know",
			watch->client->directory, GPUSHARE_VERSION);
}

/* Connect without waiting. E_TIMED_OUT: it is too early to connect, or the registry has not
 * answered. */
static int connect_now(struct gpushare_watch *watch)
{
	struct client *client = watch->client;
	int status;

	if (client->socket.fd >= 0 && !client_drop_ended(client))
		return GPUSHARE_E_NO_REGISTRY;
	if (client->ready)
		return GPUSHARE_OK;
	if (client->socket.fd < 0) {
		if (monotonic_ms() < watch->due_ms)
			return GPUSHARE_E_TIMED_OUT;
		watch->due_ms = monotonic_ms() + PATIENCE_MS;
	}
	status = client_connect_by(client, 0);
	watch->reached |= client->socket.fd >= 0;
	if (status == GPUSHARE_E_TIMED_OUT && !client->greeted && monotonic_ms() >= watch->due_ms)
		hang_up(watch);
	return status;
}

static bool ask(struct gpushare_watch *watch)
{
	static const request subscribe = {.which_verb = gpushare_Request_subscribe_tag};

	watch->asked = client_post(watch->client, &subscribe);
	return watch->asked;
}

/* Take the next answer with notices, without waiting. E_TIMED_OUT: there is none. */
static int receive(struct gpushare_watch *watch)
{
	struct client *client = watch->client;
	bool answered;
	int status = connect_now(watch);

	if (status)
		return status;
	if (!watch->asked && !ask(watch))
		return GPUSHARE_E_NO_REGISTRY;
	status = client_await(client, watch->asked, &answered, 0);
	if (status)
		return status;
	if (client->reply.which_body != gpushare_Reply_subscribe_tag)
		return GPUSHARE_E_PROTOCOL;
	watch->came = client->reply.body.subscribe.notices_count;
	watch->taken = 0;
	ask(watch); /* if that fails, the notices are delivered before the connection is given up */
	return GPUSHARE_OK;
}

/* True also if a registry listened and has ended: another one may start. */
static bool nobody_listens(const struct client *client)
{
	int error = client->dial_error;

	return !error || error == ENOENT || error == ECONNREFUSED || error == EAGAIN;
}

/* Handle a failed receive(). E_TIMED_OUT, without a message: try again later. */
static int say_why(struct gpushare_watch *watch, int status)
{
	const struct client *client = watch->client;

	switch (status) {
	case GPUSHARE_E_TIMED_OUT:
		return status;
	case GPUSHARE_E_PROTOCOL:
		return refuse(watch);
	case GPUSHARE_E_NO_REGISTRY:
		hang_up(watch);
		if (nobody_listens(client))
			return GPUSHARE_E_TIMED_OUT;
		return api_fail(status_from_errno(client->dial_error), "%s", client->why);
	default:
		hang_up(watch);
		return api_fail(status, "%s", client->why);
	}
}

/* Begin a notice. LOST and RESTART are about no buffer, so their `info` stays zero. */
static void tell(const struct gpushare_watch *watch, enum gpushare_notice_kind kind,
		 struct gpushare_notice *out_notice)
{
	*out_notice = (struct gpushare_notice){
	    .kind = kind,
	    .serial = watch->serial,
	    .unix_ns = watch->unix_ns,
	};
}

/* Deliver one notice, the oldest first. False: there is none. */
static bool deliver(struct gpushare_watch *watch, struct gpushare_notice *out_notice)
{
	if (watch->lost) {
		tell(watch, GPUSHARE_NOTICE_LOST, out_notice);
		out_notice->lost = watch->lost;
		watch->lost = 0;
	} else if (watch->restarted) {
		tell(watch, GPUSHARE_NOTICE_RESTART, out_notice);
		watch->restarted = false;
	} else if (watch->pending) {
		tell(watch, (enum gpushare_notice_kind)watch->pending->kind, out_notice);
		out_notice->pid = watch->pending->pid;
		out_notice->published = watch->pending->published;
		out_notice->rate = watch->pending->rate;
		codec_read_info(&watch->pending->buffer, &out_notice->info);
		watch->pending = NULL;
	} else {
		return false;
	}
	return true;
}

static bool has_more(const struct gpushare_watch *watch)
{
	return watch->lost || watch->restarted || watch->pending;
}

/* When to call take_one() even if the socket isn't readable. 0: now; INT64_MAX: never. */
static int64_t wake_ms(const struct gpushare_watch *watch)
{
	if (watch->taken < watch->came)
		return 0;
	return watch->client->greeted ? INT64_MAX : watch->due_ms;
}

/* Arm the timer for wake_ms(), or for now if a notice is pending, so that a program's poll of
 * client->events wakes up then. */
static void set_timer(struct gpushare_watch *watch)
{
	int64_t at_ms = has_more(watch) ? 0 : wake_ms(watch);
	struct itimerspec at = {.it_value = {at_ms / 1000, at_ms % 1000 * 1000000}};

	if (at_ms == watch->armed_ms)
		return;
	if (!at_ms)
		at.it_value.tv_nsec = 1;
	if (at_ms == INT64_MAX)
		at.it_value = (struct timespec){0};
	timerfd_settime(watch->timer, TFD_TIMER_ABSTIME, &at, NULL);
	watch->armed_ms = at_ms;
}

/* Wait until take_one() may find a notice, or until the deadline; OK in both cases. */
static int wait_until(struct gpushare_watch *watch, int64_t deadline_ms)
{
	int status, before;

	set_timer(watch);
	pthread_setcancelstate(watch->cancelling, &before);
	status = client_wait(watch->client->events, POLLIN, deadline_ms);
	pthread_setcancelstate(before, NULL);
	if (status == GPUSHARE_E_IO)
		return api_fail(status, "waiting for notices failed: %s", strerror(errno));
	return status == GPUSHARE_E_TIMED_OUT ? GPUSHARE_OK : status;
}

static bool is_known(uint32_t kind)
{
	switch (kind) {
#define X(name, value, text) case value:
		GPUSHARE_NOTICES(X)
#undef X
		return true;
	}
	return false; /* a newer registry's kind */
}

/* Check the notice's serial and count the notices that are missing before it. False: it is invalid
 * or out of order. */
static bool place(struct gpushare_watch *watch, const notice *told)
{
	uint64_t before = told->serial - !!told->kind; /* a greeting (kind 0) has no number */

	if (!told->registry || (told->kind && (!told->serial || !*told->buffer.name)))
		return false;
	if (told->registry != watch->registry) {
		watch->restarted = watch->registry != 0;
		watch->registry = told->registry;
	} else if (before < watch->serial) {
		return false;
	} else {
		watch->lost += before - watch->serial;
	}
	watch->serial = told->serial;
	watch->unix_ns = told->unix_ns;
	return true;
}

/* Take one notice in, without waiting. E_TIMED_OUT, without a message: none has arrived. */
static int take_one(struct gpushare_watch *watch)
{
	const notice *told;

	while (watch->taken == watch->came) {
		int status = receive(watch);

		if (status)
			return say_why(watch, status);
	}
	told = &watch->client->reply.body.subscribe.notices[watch->taken++];
	if (!place(watch, told))
		return refuse(watch);
	if (is_known(told->kind) && !(*watch->glob && fnmatch(watch->glob, told->buffer.name, 0)))
		watch->pending = told;
	return GPUSHARE_OK;
}

/* Take notices in until one has to be delivered, TAKE_MAX at most. */
static int take_some(struct gpushare_watch *watch)
{
	int status = GPUSHARE_OK;

	for (int i = 0; i < TAKE_MAX && !status && !has_more(watch); i++)
		status = take_one(watch);
	return status;
}

/* Wait for a notice; if `out_notice` is NULL, for the registry's first one: later ones are
 * delivered or counted as lost. E_TIMED_OUT, without a message: there was none. */
static int await(struct gpushare_watch *watch, int64_t deadline_ms,
		 struct gpushare_notice *out_notice)
{
	for (;;) {
		int status = take_some(watch);

		if (out_notice ? deliver(watch, out_notice) : watch->registry != 0)
			return GPUSHARE_OK;
		if ((status && status != GPUSHARE_E_TIMED_OUT) || monotonic_ms() >= deadline_ms)
			return status ? status : GPUSHARE_E_TIMED_OUT;
		if (status)
			status = wait_until(watch, deadline_ms);
		if (status)
			return status;
	}
}

/* Check that a registry runs, and get its directory. */
static int find_registry(struct gpushare_session *session, char out_directory[GPUSHARE_PATH_MAX])
{
	int status;

	if (!session_try_client(session, session_deadline(session)))
		return session_fail_client(session);
	status = client_connect(session->client);
	if (status)
		api_fail(status, "%s", session->client->why);
	strcpy(out_directory, session->client->directory);
	session_give_client(session);
	return status;
}

static void free_watch(struct gpushare_watch *watch)
{
	int events = watch->client ? watch->client->events : -1;

	client_free(watch->client);
	if (watch->timer >= 0)
		close(watch->timer);
	if (events >= 0)
		close(events);
	free(watch);
}

static int open_client(struct gpushare_watch *watch, const char *directory)
{
	const struct client_options options = {.directory = directory, .who = "watch"};
	struct epoll_event event = {.events = EPOLLIN};
	struct client *client = watch->client = client_new(&options);

	if (!client)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to watch %s", directory);
	client->events = client_keep_clear(epoll_create1(EPOLL_CLOEXEC));
	watch->timer =
	    client_keep_clear(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (client->events < 0 || watch->timer < 0 ||
	    epoll_ctl(client->events, EPOLL_CTL_ADD, watch->timer, &event))
		return api_fail(GPUSHARE_E_LIMIT, "can't create file descriptors to watch %s: %s",
				directory, strerror(errno));
	return GPUSHARE_OK;
}

static int open_watch(struct gpushare_watch *watch, struct gpushare_session *session)
{
	int64_t deadline_ms = monotonic_ms() + session->timeout_ms;
	char directory[GPUSHARE_PATH_MAX];
	int status = find_registry(session, directory);

	if (!status)
		status = open_client(watch, directory);
	if (!status)
		status = await(watch, deadline_ms, NULL);
	if (status == GPUSHARE_E_TIMED_OUT && watch->client)
		return api_fail(watch->reached ? status : GPUSHARE_E_NO_REGISTRY,
				"no registry sends notices at " GPUSHARE_SOCKET
				" in %s; the one there may be older than %s, or stopped",
				directory, GPUSHARE_VERSION);
	if (!status)
		set_timer(watch);
	return status;
}

API_PUBLIC int gpushare_watch(struct gpushare_session *session, const char *glob,
			      struct gpushare_watch **out_watch)
{
	API_CALL;
	struct gpushare_watch *watch;
	int status = API_NEED(session_check_glob(session, glob), out_watch);

	if (status)
		return status;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for a watch");
	*watch = (struct gpushare_watch){
	    .pid = getpid(),
	    .process = fork_check_number(),
	    .timer = -1,
	    .armed_ms = INT64_MAX,
	    .cancelling = PTHREAD_CANCEL_DISABLE,
	};
	if (glob)
		strcpy(watch->glob, glob);
	status = open_watch(watch, session);
	if (status)
		free_watch(watch);
	else
		*out_watch = watch;
	return status;
}

API_PUBLIC int gpushare_watch_next(struct gpushare_watch *watch, int timeout_ms,
				   struct gpushare_notice *out_notice)
{
	API_CALL;
	int status;

	if (!watch || !out_notice)
		return api_fail(GPUSHARE_E_INVALID, "%s is NULL", watch ? "out_notice" : "watch");
	if (watch->process != fork_check_number())
		return api_fail(GPUSHARE_E_FORKED,
				"the watch was opened by process %d before fork(); call "
				"gpushare_watch() in this process",
				watch->pid);
	watch->cancelling = api_cancelling_;
	status = await(watch, timeout_ms < 0 ? INT64_MAX : monotonic_ms() + timeout_ms, out_notice);
	set_timer(watch);
	if (status == GPUSHARE_E_TIMED_OUT)
		return api_fail(status, "no change in %s within the time limit",
				watch->client->directory);
	return status;
}

API_PUBLIC int gpushare_watch_fd(const struct gpushare_watch *watch)
{
	return watch ? watch->client->events : -1;
}

API_PUBLIC void gpushare_watch_close(struct gpushare_watch *watch)
{
	API_CALL;
	if (watch)
		free_watch(watch);
}

API_TEXTS(gpushare_notice_text, enum gpushare_notice_kind, kind, GPUSHARE_NOTICES)
