/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DAEMON_H
#define GPUSHARE_TOOLS_DAEMON_H
/* Find the registry process that serves a directory, by socket credentials and /proc. This works
 * even if the process hangs. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How the registry was started. */
struct daemon_starter {
	const char *word; /* in JSON */
	const char *text;
};

struct daemon {
	int32_t pid; /* 0: the process is in a pid namespace that is not visible from here */
	uid_t uid;
	const struct daemon_starter *starter;
	/* such as "gpushare-registry.service"; "": systemd did not start the registry */
	char unit[NAME_MAX + 1];
	bool of_user;	    /* the unit belongs to the user's service manager */
	char log[PATH_MAX]; /* regular file with the registry's stderr; "": none, or unknown */
};

/* Connect to the registry's socket fds.sock in `directory`. Returns a descriptor, or -1 with
 * errno. */
int daemon_connect(const char *directory);
/* Returns 0 or an errno. ENOENT, ENOTDIR and ECONNREFUSED: no process serves the directory. */
int daemon_find(const char *directory, struct daemon *out_daemon);

#endif
