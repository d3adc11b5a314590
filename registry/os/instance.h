/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INSTANCE_H
#define GPUSHARE_REGISTRY_INSTANCE_H
/* The directory as one daemon's own: who holds its lock, and hears nobody at fds.sock, owns the names in it. */
#include <sys/stat.h>

#include "protocol.h"

struct instance {
	char directory[GPUSHARE_PATH_MAX];
	char socket[GPUSHARE_PATH_MAX];
	char fds_socket[GPUSHARE_PATH_MAX];
	char lock_path[GPUSHARE_PATH_MAX + 16];
	int lock;
	struct stat listens; /* the socket's file */
};

enum instance_access {
	INSTANCE_USER,	 /* the folder becomes one user's */
	INSTANCE_SYSTEM, /* ...or all users' */
	INSTANCE_AS_IS,	 /* it stays as the daemon before has made it */
};

/* What instance_open() says besides a status. */
#define INSTANCE_SERVED 1

/*
 * Find and make the directory (`given` as for directory_find()), take its lock, remove what an
 * earlier daemon left. INSTANCE_SERVED: another daemon is there, and, where it is to be replaced, does
 * not leave. On failure a sentence is logged.
 */
int instance_open(struct instance *place, const char *given, enum instance_access access,
		  bool replace);
/* The socket is there: it shows from now on whose the directory is. */
void instance_listens(struct instance *place);
/* Whether somebody has removed the directory, or made it another one's: nobody finds us any more. */
bool instance_is_lost(const struct instance *place);
/* Remove the sockets. The lock file stays: a name that comes and goes can be locked twice. */
void instance_clear(const struct instance *place);

#endif
