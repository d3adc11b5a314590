/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DAEMON_H
#define GPUSHARE_TOOLS_DAEMON_H
/* Find the registry process that serves a directory, by socket credentials and /proc. This works
 * even if the process hangs. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Who started the registry: X(name, value in JSON, text) */
#define DAEMON_STARTERS(X) \
	X(UNKNOWN, "unknown", "unknown: /proc doesn't show the process here") \
	X(SYSTEMD, "systemd", "systemd") \
	X(KEEPER, "keeper", "its keeper, after the previous registry had ended") \
	X(PROGRAM, "program", "a program that needed it; it exits when idle") \
	X(HAND, "hand", "hand")

enum daemon_starter {
#define X(name, json, text) DAEMON_BY_##name,
	DAEMON_STARTERS(X)
#undef X
};

struct daemon {
	int32_t pid; /* 0: in a pid namespace that is not visible from here */
	uid_t uid;
	enum daemon_starter starter;
	char unit[NAME_MAX + 1]; /* such as "gpushare-registry.service"; "": not SYSTEMD */
	bool of_user;		 /* the unit belongs to the user's service manager */
	char log[PATH_MAX];	 /* regular file for its standard error; "": none, or unknown */
};

/* Connect to the registry's socket for file descriptors in `directory`. Returns -1 with errno on
 * failure. */
int daemon_connect(const char *directory);
/* Returns 0 or an errno: ENOENT, ENOTDIR or ECONNREFUSED if no process serves the directory. */
int daemon_find(const char *directory, struct daemon *out_daemon);

#endif
