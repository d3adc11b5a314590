/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DAEMON_H
#define GPUSHARE_TOOLS_DAEMON_H
/* The process that serves a directory, as the kernel knows it. It is not asked, so it may hang. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* X(name, JSON, text): who started it */
#define DAEMON_STARTERS(X) \
	X(UNKNOWN, "unknown", "unknown: /proc doesn't show the process here") \
	X(SYSTEMD, "systemd", "systemd") \
	X(KEEPER, "keeper", "its keeper, after the one before had ended") \
	X(PROGRAM, "program", "a program that needed it; it ends when it is idle") \
	X(HAND, "hand", "hand")

enum daemon_starter {
#define X(name, json, text) DAEMON_BY_##name,
	DAEMON_STARTERS(X)
#undef X
};

struct daemon {
	int32_t pid; /* 0: in a pid namespace that isn't seen from here */
	uid_t uid;
	enum daemon_starter starter;
	char unit[NAME_MAX + 1]; /* with SYSTEMD: "gpushare-registry.service" */
	bool of_user;		 /* it is a unit of the user's manager */
	char log[PATH_MAX];	 /* the file behind its standard error; "": none, or unknown */
};

/* Connect to the socket for descriptors of the daemon in `directory`. -1: errno says why. */
int daemon_connect(const char *directory);
/* Returns 0, or the errno of what failed: ENOENT, ENOTDIR, ECONNREFUSED if nobody listens there. */
int daemon_find(const char *directory, struct daemon *out_daemon);

#endif
