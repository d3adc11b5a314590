/* SPDX-License-Identifier: MIT */
/* gpushare registry start|stop|status|log */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "common/daemon.h"
#include "common/show.h"
#include "protocol.h"
#include "options.h"
#include "verbs.h"

#define EXIT_NOT_RUNNING 3    /* the exit code of systemctl status */
#define STOP_MS 5000	      /* the same as in gpushare-registry --replace */
#define UNITS "/run/gpushare" /* systemd's system units have their directories there */

struct call {
	char path[GPUSHARE_PATH_MAX];
	bool runs;
	struct daemon daemon; /* valid if `runs` */
	struct options options;
};

static int open_quietly(const struct call *call, struct gpushare_session **out)
{
	const struct gpushare_open_options options = {.directory = call->path, .no_autostart = 1};

	return gpushare_open(&options, out);
}

/* ---- start ---- */

static int registry_start(struct call *call)
{
	_tool_session_ struct gpushare_session *session = NULL;

	if (call->runs) {
		printf("already running: pid %d serves %s, started by %s%s%s\n", call->daemon.pid,
		       call->path, call->daemon.starter->text, *call->daemon.unit ? ": " : "",
		       call->daemon.unit);
		return tool_flush(TOOL_DONE);
	}
	if (!strncmp(call->path, UNITS "/", sizeof(UNITS))) {
		tool_error("no registry serves %s, the directory of a systemd unit: start it with "
			   "'systemctl start gpushare-registry', or gpushare-registry@USER",
			   call->path);
		return TOOL_FAILED;
	}
	unsetenv("GPUSHARE_AUTOSTART"); /* a value of 0 would forbid this start */
	session = tool_open(call->path, true);
	if (!session || daemon_find(call->path, &call->daemon))
		return TOOL_FAILED;
	printf("started: pid %d serves %s; it exits after " GPUSHARE_IDLE_EXIT_S
	       " s without use, unless buffers are kept\n",
	       call->daemon.pid, call->path);
	return tool_flush(TOOL_DONE);
}

/* ---- stop ---- */

struct loss {
	uint64_t count, bytes;
	char name[GPUSHARE_NAME_MAX + 1]; /* of one buffer that would be lost */
};

/* Count the buffers that would be lost: kept ones whose owners have ended. A living owner gives its
 * names to the next registry. */
static int count_loss(const struct gpushare_info *info, void *user)
{
	struct loss *loss = user;

	if (!(info->flags & GPUSHARE_FLAG_KEEP) || info->owner_alive || info->missing)
		return 0;
	strcpy(loss->name, info->name);
	loss->count++;
	loss->bytes += held_bytes(info->size, info->base_size);
	return 0;
}

/* Returns TOOL_DONE if no buffer would be lost. Otherwise reports the loss. */
static int check_loss(const struct call *call)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct loss loss = {.count = 0};
	char size[TOOL_TEXT_MAX];
	int status = open_quietly(call, &session);

	if (!status)
		status = gpushare_list(session, NULL, count_loss, &loss);
	if (status) {
		tool_failed(status);
		tool_error(
		    "it is not known whether kept buffers would be lost; --force stops pid %d "
		    "anyway",
		    call->daemon.pid);
		return TOOL_FAILED;
	}
	if (!loss.count)
		return TOOL_DONE;
	tool_format_size(loss.bytes, size);
	tool_error("%" PRIu64 " kept buffer%s without an owner (%s), such as '%s', would be lost; "
		   "copy what you need with 'gpushare get NAME -o FILE', or add --force",
		   loss.count, loss.count == 1 ? "" : "s", size, loss.name);
	return TOOL_FAILED;
}

/* Send SIGTERM to the pidfd `process`, and wait until the process has ended. */
static int terminate(const struct call *call, int process)
{
	int32_t pid = call->daemon.pid;
	struct pollfd end = {.fd = process, .events = POLLIN};

	if (pidfd_send_signal(process, SIGTERM, NULL, 0) && errno != ESRCH) {
		tool_error("pid %d, which serves %s, can't be ended: %s; it belongs to uid %u", pid,
			   call->path, strerror(errno), (unsigned int)call->daemon.uid);
		return TOOL_FAILED;
	}
	if (poll(&end, 1, STOP_MS) == 1)
		return TOOL_DONE;
	tool_error("pid %d, which serves %s, has not ended within %d s; 'kill -KILL %d' ends it",
		   pid, call->path, STOP_MS / 1000, pid);
	return TOOL_FAILED;
}

/* A keeper process that holds descriptors would start another registry a second later. The keeper
 * ends if its socket is removed. */
static void end_keeper(const char *directory)
{
	char path[GPUSHARE_PATH_MAX + sizeof("/" KEEPER_SOCKET)];

	snprintf(path, sizeof(path), "%s/" KEEPER_SOCKET, directory);
	unlink(path);
}

static int registry_stop(struct call *call)
{
	_cleanup_close_ int process = -1;
	struct daemon again;
	int code;

	if (!call->runs) {
		printf("not running: no registry serves %s\n", call->path);
		return tool_flush(TOOL_DONE);
	}
	/* If the same pid still serves now, the pidfd refers to the registry. */
	process = call->daemon.pid ? pidfd_open(call->daemon.pid, 0) : -1;
	if (process < 0 || daemon_find(call->path, &again) || again.pid != call->daemon.pid) {
		tool_error(
		    "the process that serves %s can't be found from here; stop it in its own "
		    "container",
		    call->path);
		return TOOL_FAILED;
	}
	code = call->options.force ? TOOL_DONE : check_loss(call);
	if (!code)
		code = terminate(call, process);
	if (code)
		return code;
	end_keeper(call->path);
	printf("stopped: pid %d served %s\n", call->daemon.pid, call->path);
	return tool_flush(TOOL_DONE);
}

/* ---- status ---- */

static int status_json(const struct call *call, const struct gpushare_registry_info *info)
{
	const struct daemon *daemon = &call->daemon;

	if (!call->runs)
		return show_dump(json_pack("{s:b, s:s}", "running", 0, "directory", call->path));
	return show_dump(json_pack(
	    "{s:b, s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "running", 1,
	    "directory", call->path, "pid", daemon->pid, "uid", (int)daemon->uid, "started_by",
	    daemon->starter->word, "unit", daemon->unit, "log", daemon->log, "version",
	    info->version, "started_unix_ns", (json_int_t)info->started_unix_ns, "names",
	    (json_int_t)info->names, "attachments", (json_int_t)info->attachments, "connections",
	    (json_int_t)info->connections));
}

static int status_print(const struct call *call, const struct gpushare_registry_info *info)
{
	const struct daemon *daemon = &call->daemon;
	const char *log = *daemon->log ? daemon->log : "none";
	char since[TOOL_TEXT_MAX], age[TOOL_TEXT_MAX];

	tool_field("state", "%s",
		   !call->runs ? "not running"
		   : info      ? "running"
			       : "does not answer");
	tool_field("directory", "%s", call->path);
	if (!call->runs)
		return tool_flush(TOOL_DONE);
	tool_field("pid", "%d, uid %u", daemon->pid, (unsigned int)daemon->uid);
	tool_field("started by", "%s%s%s%s", daemon->starter->text, *daemon->unit ? ": " : "",
		   daemon->unit, daemon->of_user ? ", of the user's manager" : "");
	tool_field("log", "%s", *daemon->unit ? "the journal" : log);
	if (!info)
		return tool_flush(TOOL_DONE);
	show_time(info->started_unix_ns, since);
	tool_format_age(show_since(info->started_unix_ns), age);
	tool_field("since", "%s (%s ago)", since, age);
	tool_field("version", "%s", info->version);
	tool_field("names", "%" PRIu64, info->names);
	tool_field("attachments", "%" PRIu64, info->attachments);
	tool_field("connections", "%" PRIu64, info->connections);
	return tool_flush(TOOL_DONE);
}

static int registry_status(struct call *call)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct gpushare_registry_info info = {.names = 0};
	int failed = call->runs ? open_quietly(call, &session) : 0, code;

	if (call->runs && !failed)
		failed = gpushare_stat_registry(session, &info);
	if (failed)
		tool_failed(failed);
	if (failed && call->options.json)
		return TOOL_FAILED;
	code = call->options.json ? status_json(call, &info)
				  : status_print(call, failed ? NULL : &info);
	if (failed || code)
		return TOOL_FAILED;
	return call->runs ? TOOL_DONE : EXIT_NOT_RUNNING;
}

/* ---- log ---- */

static int become(char *const words[])
{
	signal(SIGPIPE, SIG_DFL);
	execvp(words[0], words);
	tool_error("%s can't be run: %s", words[0], strerror(errno));
	return TOOL_FAILED;
}

/* Report where the log is, and execute the program that prints it. */
static int registry_log(struct call *call)
{
	struct daemon *daemon = &call->daemon;
	char *journal[] = {(char *)"journalctl",
			   (char *)(daemon->of_user ? "--user-unit" : "--unit"), daemon->unit,
			   NULL};
	char *file[] = {(char *)"cat", (char *)"--", daemon->log, NULL};

	if (*daemon->unit) {
		tool_error("the log is in the journal: journalctl %s %s", journal[1], journal[2]);
		return become(journal);
	}
	if (*daemon->log) {
		tool_error("the log is %s", daemon->log);
		return become(file);
	}
	if (!call->runs)
		tool_error("no registry serves %s; if a unit served it, the log is in the journal: "
			   "'journalctl --user-unit gpushare-registry'",
			   call->path);
	else
		tool_error("pid %d, which serves %s, writes no log that can be read here; "
			   "'gpushare-registry --foreground --replace --dir %s' takes over from it "
			   "and logs to standard error",
			   daemon->pid, call->path, call->path);
	return TOOL_FAILED;
}

static const struct action {
	const char *name;
	int (*run)(struct call *call);
	bool force, json; /* whether the action accepts these options */
} actions[] = {
#define X(word, before, force, json) {#word, registry_##word, force, json},
    REGISTRY_ACTIONS(X)
#undef X
};

static int run(const char *name, struct call *call)
{
	const struct action *action = NULL;
	int error;

	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (!strcmp(name, actions[i].name))
			action = &actions[i];
	if (!action)
		return tool_usage("registry wants one of " REGISTRY_WORDS ", not '%s'", name);
	if ((call->options.force && !action->force) || (call->options.json && !action->json))
		return tool_usage("'registry %s' has no %s", name,
				  call->options.force ? "--force" : "--json");
	if (directory_find(call->options.directory, call->path)) {
		tool_error("the path of the registry's directory is too long for a socket");
		return TOOL_FAILED;
	}
	error = daemon_find(call->path, &call->daemon);
	if (error && error != ENOENT && error != ENOTDIR && error != ECONNREFUSED) {
		tool_error("the registry of %s can't be reached: %s", call->path, strerror(error));
		return TOOL_FAILED;
	}
	call->runs = !error;
	return action->run(call);
}

int verb_registry(int argc, char **argv)
{
	struct call call = {.runs = false};
	int code = options_parse(argc, argv, &call.options);

	if (code >= 0)
		return code;
	if (argc - optind != 1)
		return tool_usage("registry wants one of " REGISTRY_WORDS);
	return run(argv[optind], &call);
}
