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

/* The setting that the path comes from, in the order of directory_find(). */
static const char *path_source(const char *given)
{
	const char *variable = getenv("GPUSHARE_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");

	if (given)
		return "--dir";
	if (variable && *variable)
		return "GPUSHARE_DIR";
	return runtime && *runtime ? "XDG_RUNTIME_DIR" : "the user's number";
}

/* directory_check() puts the next step behind "; " in its sentence. */
static void say_bad_directory(char *why)
{
	char *next = strstr(why, "; ");

	if (next)
		*next = '\0';
	doctor_fail(AREA, next ? next + 2 : "name another directory in GPUSHARE_DIR", "%s", why);
}

static bool check_directory(const char *given, char path[GPUSHARE_PATH_MAX])
{
	struct directory_trust trust;
	char why[512] = "";
	int status = directory_find(given, path);

	if (status) {
		doctor_fail(AREA, "name a shorter one in GPUSHARE_DIR",
			    "the directory given by %s can't be used: %s", path_source(given),
			    gpushare_status_text(status));
		return false;
	}
	status = directory_check(path, &trust, why, sizeof(why));
	if (status == GPUSHARE_E_NOT_FOUND)
		doctor_ok(AREA, "its directory is %s, chosen by %s; it is made when it is needed",
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

/* Return 0 if a registry could be started there, else the errno of the access that fails. */
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
		doctor_fail(AREA, "name a directory in GPUSHARE_DIR that you may write to",
			    "none runs, and %s can't be made or written to: %s", path,
			    strerror(error));
	} else if (autostart && !strcmp(autostart, "0")) {
		doctor_fail(
		    AREA, "start " PROGRAM ", or unset GPUSHARE_AUTOSTART",
		    "none runs in %s, and GPUSHARE_AUTOSTART=0 keeps one from being started", path);
	} else if (!program_find(program)) {
		doctor_fail(AREA, "install it beside this program, or name it in GPUSHARE_REGISTRY",
			    "none runs in %s, and " PROGRAM " was not found to be started", path);
	} else {
		found->registry = true;
		doctor_ok(AREA, "none runs; the first who needs it starts %s", program);
	}
}

static void say_running(const struct gpushare_registry_info *info)
{
	bool same = !strcmp(info->version, gpushare_version());
	char age[TOOL_TEXT_MAX];

	tool_format_age(show_since(info->started_unix_ns), age);
	doctor_say(
	    same ? VERDICT_OK : VERDICT_WARN, AREA,
	    same ? NULL : "install the same version on both sides; what runs ends when it is idle",
	    "one runs: version %s%s%s, pid %" PRId32 ", for %s, with %" PRIu64 " names and %" PRIu64
	    " attachments",
	    *info->version ? info->version : "before 0.1.0", same ? "" : ", and this program is ",
	    same ? "" : gpushare_version(), info->pid, age, info->names, info->attachments);
}

static void check_descriptors(const char *path)
{
	_cleanup_close_ int fd = daemon_connect(path);

	if (fd >= 0)
		doctor_ok(AREA, "descriptors go over " GPUSHARE_FDS_SOCKET);
	else
		doctor_fail(AREA, "end the registry; the next one makes it anew",
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
		doctor_fail(AREA, "end what listens there, and try again", "%s",
			    gpushare_explain());
		return;
	}
	found->registry = true;
	say_running(&info);
	check_descriptors(path);
}
