/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INSTANCE_H
#define GPUSHARE_REGISTRY_INSTANCE_H
/* A directory belongs to one daemon: the one that holds its lock while no other daemon listens
 * at its fds.sock. That daemon owns the names in it. */
#include <sys/socket.h>
#include <sys/stat.h>

#include "protocol.h"

/* Whether `path` still is that file. true if unknown. */
bool is_file(const char *path, const struct stat *file);

#define SYSTEM_DIRECTORY "/run/gpushare/system" /* of --system, without --dir */

struct instance {
	char directory[GPUSHARE_PATH_MAX];
	char socket[GPUSHARE_PATH_MAX];
	char fds_socket[GPUSHARE_PATH_MAX];
	char lock_path[GPUSHARE_PATH_MAX + 16];
	int lock;
	struct stat listens; /* the socket's file; the caller sets it when the socket listens */
};

enum instance_access {
	INSTANCE_USER,	 /* prepare the folder for one user */
	INSTANCE_SYSTEM, /* prepare it for all users */
	INSTANCE_AS_IS,	 /* leave it as the previous daemon made it */
};

/* A result of instance_open() besides the statuses. */
#define INSTANCE_SERVED 1

/*
 * Find and make the directory (`given` as for directory_find()), take its lock, remove what an
 * earlier daemon left. INSTANCE_SERVED: another daemon serves it and, with `replace`, did not exit.
 * A failure is logged.
 */
int instance_open(struct instance *instance, const char *given, enum instance_access access,
		  bool replace);
/* Whether the socket's file was removed or replaced, e.g. with the directory: clients can't find
 * us any more. */
bool instance_is_lost(const struct instance *instance);
/* Remove the sockets. The lock file stays: if it were removed and made again, two daemons could
 * lock it. */
void instance_clear(const struct instance *instance);

/* Access to the folder and its sockets. state/session.h judges requests. */

/* Call before anything is opened; the default is this user alone. `gid` IDENTITY_NO_GROUP:
 * everybody. */
void socket_access_set(bool for_system, uint32_t gid);
/* Gives access to the socket at `path`, which only this user can open so far. false: errno. */
bool socket_access_open(const char *path);
/* A SOCK_SEQPACKET socket that listens there, for this user; -1: errno. */
int socket_listen(const char *path);
/* Connect to such a socket, without waiting. -1: errno; EAGAIN: its backlog is full. */
int socket_dial(const char *path, struct ucred *out_peer);

#endif
