/* SPDX-License-Identifier: MIT */
/* Checks of the registry: its directory, the process that listens there, and its socket for file
 * descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "common/beside.h"
#include "common/daemon.h"
#include "common/show.h"
#include "doctor.h"
#include "protocol.h"

#define AREA "registry"
#define PROGRAM "gpushare-registry"

/* Return which setting gives directory_find() the path. */
static const char *path_source(const char *given)
{
	const char *variable = getenv("GPUSHARE_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");

	if (given)
		return "--dir";
	if (variable && *variable)
		return "GPUSHARE_DIR";
	return runtime && *runtime ? "XDG_RUNTIME_DIR" : "the user's id";
}

/* Report directory_check()'s message, in which "; " comes before the next step. */
static void say_bad_directory(char *why)
{
	char *next = strstr(why, "; ");

	if (next)
		*next = '\0';
	doctor_fail(AREA, next ? next + 2 : "set GPUSHARE_DIR to another directory", "%s", why);
}

static bool check_directory(const char *given, char path[GPUSHARE_PATH_MAX])
{
	struct directory_trust trust;
	char why[512] = "";
	int status = directory_find(given, path);

	if (status) {
		doctor_fail(AREA, "set GPUSHARE_DIR to a shorter path",
			    "the directory given by %s can't be used: %s", path_source(given),
			    gpushare_status_text(status));
		return false;
	}
	status = directory_check(path, &trust, why, sizeof(why));
	if (status == GPUSHARE_E_NOT_FOUND)
		doctor_ok(AREA, "its directory is %s, chosen by %s; it is created when needed",
			  path, path_source(given));
	else if (status)
		say_bad_directory(why);
	else
		doctor_ok(AREA, "its directory is %s, chosen by %s", path, path_source(given));
	return !status || status == GPUSHARE_E_NOT_FOUND;
}

static bool program_find(char out[PATH_MAX])
{
	const char *given = getenv("GPUSHARE_REGISTRY");

	if (!given || !*given)
		return beside_program(PROGRAM, out);
	snprintf(out, PATH_MAX, "%s", given);
	return !access(given, X_OK);
}

/* Return 0 if this user can write to the directory or create it, else an errno. */
static int can_serve(const char *path)
{
	char parent[GPUSHARE_PATH_MAX];
	char *slash;

	if (!faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS))
		return 0;
	if (errno != ENOENT)
		return errno;
	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = '\0';
	return faccessat(AT_FDCWD, slash ? parent : ".", W_OK | X_OK, AT_EACCESS) ? errno : 0;
}

/* No registry runs: report whether one would be started. */
static void say_none(const char *path, struct doctor_found *found)
{
	const char *autostart = getenv("GPUSHARE_AUTOSTART");
	char program[PATH_MAX];
	int error = can_serve(path);

	if (error) {
		doctor_fail(AREA, "set GPUSHARE_DIR to a directory that you may write to",
			    "none runs, and %s can't be created or written to: %s", path,
			    strerror(error));
	} else if (autostart && !strcmp(autostart, "0")) {
		doctor_fail(
		    AREA, "start " PROGRAM ", or unset GPUSHARE_AUTOSTART",
		    "none runs in %s, and GPUSHARE_AUTOSTART=0 forbids programs to start one",
		    path);
	} else if (!program_find(program)) {
		doctor_fail(AREA,
			    "install it beside this program, or set GPUSHARE_REGISTRY to its path",
			    "none runs in %s, and the program " PROGRAM " was not found", path);
	} else {
		found->registry = true;
		doctor_ok(AREA, "none runs; the first program that needs one starts %s", program);
	}
}

static void say_running(const struct gpushare_registry_info *info)
{
	bool same = !strcmp(info->version, gpushare_version());
	char age[TOOL_TEXT_MAX];

	tool_format_age(show_since(info->started_unix_ns), age);
	doctor_say(same ? VERDICT_OK : VERDICT_WARN, AREA,
		   same ? NULL
			: "install one version of both programs; a registry that a program "
			  "started exits when idle",
		   "one runs: version %s%s%s, pid %" PRId32 ", for %s, with %" PRIu64
		   " names and %" PRIu64 " attachments",
		   *info->version ? info->version : "before 0.1.0",
		   same ? "" : ", and this program is ", same ? "" : gpushare_version(), info->pid,
		   age, info->names, info->attachments);
}

static void check_descriptors(const char *path)
{
	_cleanup_close_ int fd = daemon_connect(path);

	if (fd >= 0)
		doctor_ok(AREA, "its socket for file descriptors, " GPUSHARE_FDS_SOCKET ", works");
	else
		doctor_fail(AREA, "end the registry; the next one creates the socket again",
			    GPUSHARE_FDS_SOCKET
			    " can't be reached (%s): no kept, read-only or mapped "
			    "buffers",
			    strerror(errno));
}

void doctor_registry(const char *directory, struct doctor_found *found)
{
	const struct gpushare_open_options options = {.directory = directory, .no_autostart = 1};
	_tool_session_ struct gpushare_session *session = NULL;
	struct gpushare_registry_info info;
	char path[GPUSHARE_PATH_MAX];
	int status;

	if (!check_directory(directory, path))
		return;
	status = gpushare_open(&options, &session);
	if (!status)
		status = gpushare_stat_registry(session, &info);
	if (status == GPUSHARE_E_NO_REGISTRY) {
		say_none(path, found);
		return;
	}
	if (status) {
		doctor_fail(AREA, "end the process that listens there, and try again", "%s",
			    gpushare_explain());
		return;
	}
	found->registry = true;
	say_running(&info);
	check_descriptors(path);
}
