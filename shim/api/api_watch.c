/* SPDX-License-Identifier: MIT */
/* What happens to buffers, as a registry tells it: gaps, other registries, names that nobody asked for. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api_session.h"
#include "api_subscriber.h"
#include "base/fork_check.h"
#include "base/monotonic.h"

#define TAKE_MAX 1024 /* notices of other names between two looks at the clock */

struct gpushare_watch {
	int pid;			  /* that opened it, for words */
	unsigned int process;		  /* the same */
	char glob[GPUSHARE_NAME_MAX + 1]; /* "": all */
	struct subscriber subscriber;
	uint64_t registry, serial; /* of the latest notice; 0: none so far */
	uint64_t unix_ns;	   /* of that */
	/* what is to be told: */
	uint64_t lost;
	bool restarted;
	bool pending; /* `notice` */
	notice notice;
};

/* The buffer's name, for LOST and RESTART too: nothing is known of it then. */
static void tell(const struct gpushare_watch *watch, enum gpushare_notice_kind kind,
		 struct gpushare_notice *out_notice)
{
	*out_notice = (struct gpushare_notice){
	    .kind = kind,
	    .serial = watch->serial,
	    .unix_ns = watch->unix_ns,
	};
}

/* One that is to be told, the oldest first. */
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
		tell(watch, (enum gpushare_notice_kind)watch->notice.kind, out_notice);
		out_notice->pid = watch->notice.pid;
		out_notice->published = watch->notice.published;
		out_notice->rate = watch->notice.rate;
		query_info(&watch->notice.buffer, &out_notice->info);
		watch->pending = false;
	} else {
		return false;
	}
	return true;
}

static bool has_more(const struct gpushare_watch *watch)
{
	return watch->lost || watch->restarted || watch->pending;
}

static bool is_known(uint32_t kind)
{
	switch (kind) {
#define X(name, value, text) case value:
		GPUSHARE_NOTICES(X)
#undef X
		return true;
	}
	return false; /* a newer registry's */
}

/* Where it comes in the row; false: nowhere. */
static bool place(struct gpushare_watch *watch, const notice *told)
{
	uint64_t before = told->serial - !!told->kind; /* a greeting takes no number */

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

static int take_in(struct gpushare_watch *watch, const notice *told)
{
	if (!place(watch, told))
		return subscriber_refuse(&watch->subscriber);
	watch->notice = *told;
	watch->pending =
	    is_known(told->kind) && !(*watch->glob && fnmatch(watch->glob, told->buffer.name, 0));
	return GPUSHARE_OK;
}

/* E_TIMED_OUT: none has come. */
static int take_one(struct gpushare_watch *watch)
{
	const notice *told;
	int status = subscriber_next(&watch->subscriber, &told);

	return status ? status : take_in(watch, told);
}

/* Until something is to be told, a while at most. */
static int take_some(struct gpushare_watch *watch)
{
	int status = GPUSHARE_OK;

	for (int i = 0; i < TAKE_MAX && !status && !has_more(watch); i++)
		status = take_one(watch);
	return status;
}

static int next(struct gpushare_watch *watch, int64_t deadline_ms,
		struct gpushare_notice *out_notice)
{
	for (;;) {
		int status = take_some(watch);

		if (deliver(watch, out_notice))
			return GPUSHARE_OK;
		if (status && status != GPUSHARE_E_TIMED_OUT)
			return status;
		if (monotonic_ms() >= deadline_ms)
			return api_fail(GPUSHARE_E_TIMED_OUT, "nothing has happened in time in %s",
					watch->subscriber.directory);
		if (status)
			status = subscriber_wait(&watch->subscriber, deadline_ms);
		if (status && status != GPUSHARE_E_TIMED_OUT)
			return status;
	}
}

/* Until the registry has spoken: from there on nothing is missed. */
static int await_first(struct gpushare_watch *watch, int64_t deadline_ms)
{
	for (;;) {
		int status = take_one(watch);

		if (watch->registry || (status && status != GPUSHARE_E_TIMED_OUT))
			return watch->registry ? GPUSHARE_OK : status;
		if (monotonic_ms() >= deadline_ms)
			return api_fail(
			    watch->subscriber.reached ? status : GPUSHARE_E_NO_REGISTRY,
			    "nobody tells notices at " GPUSHARE_SOCKET
			    " in %s; the registry there may be older than %s, or stopped",
			    watch->subscriber.directory, GPUSHARE_VERSION);
		status = subscriber_wait(&watch->subscriber, deadline_ms);
		if (status && status != GPUSHARE_E_TIMED_OUT)
			return status;
	}
}

/* There is a registry, and where. */
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

static int open_watch(struct gpushare_watch *watch, struct gpushare_session *session)
{
	int64_t deadline_ms = monotonic_ms() + session->timeout_ms;
	char directory[GPUSHARE_PATH_MAX];
	int status = find_registry(session, directory);

	if (status)
		return status;
	status = subscriber_open(&watch->subscriber, directory);
	if (status)
		return status;
	status = await_first(watch, deadline_ms);
	if (status)
		subscriber_close(&watch->subscriber, true);
	else
		subscriber_settle(&watch->subscriber, has_more(watch));
	return status;
}

API_PUBLIC int gpushare_watch(struct gpushare_session *session, const char *glob,
			      struct gpushare_watch **out_watch)
{
	API_CALL;
	struct gpushare_watch *watch;
	int status = session_check(session);

	if (!status && !out_watch)
		status = api_fail(GPUSHARE_E_INVALID, "out_watch is NULL");
	if (!status && glob && strlen(glob) > GPUSHARE_NAME_MAX)
		status =
		    api_fail(GPUSHARE_E_INVALID, "the pattern is %zu bytes long; %d are the limit",
			     strlen(glob), GPUSHARE_NAME_MAX);
	if (status)
		return status;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for a watch");
	watch->pid = getpid();
	watch->process = fork_check_number();
	if (glob)
		strcpy(watch->glob, glob);
	status = open_watch(watch, session);
	if (status)
		free(watch);
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
	watch->subscriber.cancelling = api_cancelling_;
	status = next(watch, timeout_ms < 0 ? INT64_MAX : monotonic_ms() + timeout_ms, out_notice);
	subscriber_settle(&watch->subscriber, has_more(watch));
	return status;
}

API_PUBLIC int gpushare_watch_fd(const struct gpushare_watch *watch)
{
	return watch ? watch->subscriber.events : -1;
}

API_PUBLIC void gpushare_watch_close(struct gpushare_watch *watch)
{
	API_CALL;
	if (!watch)
		return;
	subscriber_close(&watch->subscriber, watch->process == fork_check_number());
	free(watch);
}

API_PUBLIC const char *gpushare_notice_text(enum gpushare_notice_kind kind)
{
	switch (kind) {
#define X(name, value, text) \
	case GPUSHARE_NOTICE_##name: \
		return text;
		GPUSHARE_NOTICES(X)
#undef X
	}
	return "unknown";
}
