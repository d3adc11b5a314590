/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "common/show.h"
#include "options.h"
#include "verbs.h"

static int print_line(const struct gpushare_notice *notice)
{
	time_t seconds = (time_t)(notice->unix_ns / 1000000000u);
	char when[TOOL_TEXT_MAX] = "?", state[SHOW_STATE_MAX], owner[SHOW_CELL_MAX];
	struct tm local;

	if (localtime_r(&seconds, &local))
		strftime(when, sizeof(when), "%H:%M:%S", &local);
	printf("%s.%06u  %-10s", when, (unsigned int)(notice->unix_ns % 1000000000u / 1000),
	       gpushare_notice_text(notice->kind));
	if (notice->kind == GPUSHARE_NOTICE_LOST)
		printf("  %" PRIu64 " notices", notice->lost);
	if (!*notice->info.name) {
		putchar('\n');
		return tool_flush(TOOL_DONE);
	}
	printf("  %s  generation=%" PRIu64, notice->info.name, notice->info.generation);
	if (notice->pid)
		printf("  pid=%" PRId32, notice->pid);
	if (notice->kind == GPUSHARE_NOTICE_PUBLISH)
		printf("  published=%" PRIu64 "  rate=%" PRIu64 "/s", notice->published,
		       notice->rate);
	show_owner(&notice->info, owner);
	if (notice->info.size)
		printf("  size=%" PRIu64 "  owner=%s  attachments=%" PRIu32, notice->info.size,
		       owner, notice->info.attachers);
	show_state(&notice->info, state);
	printf("%s%s\n", *state ? "  " : "", state);
	return tool_flush(TOOL_DONE);
}

static int print_json(const struct gpushare_notice *notice)
{
	json_t *object = json_pack(
	    "{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "kind", gpushare_notice_text(notice->kind),
	    "serial", (json_int_t)notice->serial, "unix_ns", (json_int_t)notice->unix_ns, "pid",
	    (json_int_t)notice->pid, "lost", (json_int_t)notice->lost, "published",
	    (json_int_t)notice->published, "rate", (json_int_t)notice->rate);

	if (*notice->info.name && json_object_set_new(object, "buffer", show_json(&notice->info))) {
		json_decref(object);
		object = NULL;
	}
	return show_dump_line(object);
}

/* Print the notices that have arrived, *left at most. Returns TOOL_DONE to continue. */
static int print_all(struct gpushare_watch *watch, const struct options *options, uint64_t *left)
{
	struct gpushare_notice notice;
	int status = GPUSHARE_OK, code = TOOL_DONE;

	while (!code && *left && !(status = gpushare_watch_next(watch, 0, &notice))) {
		code = options->json ? print_json(&notice) : print_line(&notice);
		--*left;
	}
	if (status && status != GPUSHARE_E_TIMED_OUT)
		return tool_failed(status);
	return code;
}

static int follow(struct gpushare_watch *watch, const struct options *options, int signals)
{
	struct pollfd events[] = {
	    {.fd = signals, .events = POLLIN},
	    {.fd = gpushare_watch_fd(watch), .events = POLLIN},
	    {.fd = STDOUT_FILENO}, /* POLLERR when the reader closes the pipe */
	};
	uint64_t left = options->copy.count ? options->copy.count : UINT64_MAX;

	for (;;) {
		int code = print_all(watch, options, &left);

		if (code || !left)
			return code;
		if (poll(events, 3, -1) < 0 && errno != EINTR) {
			tool_error("waiting failed: %s", strerror(errno));
			return TOOL_FAILED;
		}
		if (events[0].revents)
			return TOOL_DONE;
		if (events[2].revents & (POLLERR | POLLNVAL))
			return TOOL_FAILED;
	}
}

int verb_watch(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct gpushare_watch *watch = NULL;
	struct options options;
	int code = options_parse_glob(argc, argv, &options), signals, status;
	sigset_t ending;

	if (code >= 0)
		return code;
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	signals = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
	session = signals < 0 ? NULL : tool_open(options.directory, true);
	if (signals < 0)
		tool_error("no file descriptor for signals: %s", strerror(errno));
	if (!session)
		return TOOL_FAILED;
	status = gpushare_watch(session, options.glob, &watch);
	if (!status)
		tool_error("watching %s", options.glob ? options.glob : "all names");
	code = status ? tool_failed(status) : follow(watch, &options, signals);
	gpushare_watch_close(watch);
	close(signals);
	return code;
}
