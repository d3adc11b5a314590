/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INSTANCE_H
#define GPUSHARE_REGISTRY_INSTANCE_H
/* A directory belongs to one daemon: the one that holds its lock while no other daemon listens
 * at its fds.sock. That daemon owns the names in it. */
#include <sys/socket.h>
#include <sys/stat.h>

#include "protocol.h"

/* Whether `path` still is the file that `file` describes. true if unknown. */
bool is_file(const char *path, const struct stat *file);

#define SYSTEM_DIRECTORY "/run/gpushare/system" /* the folder for --system without --dir */

struct instance {
	char directory[GPUSHARE_PATH_MAX];
	char socket[GPUSHARE_PATH_MAX];
	char fds_socket[GPUSHARE_PATH_MAX];
	char lock_path[GPUSHARE_PATH_MAX + 16];
	int lock;
	struct stat listens; /* stat() of registry.sock, set by the caller once it listens */
};

enum instance_access {
	INSTANCE_USER,	 /* prepare the folder for one user */
	INSTANCE_SYSTEM, /* prepare it for all users */
	INSTANCE_AS_IS,	 /* leave it as the previous daemon made it */
};

/* A result of instance_open() besides the statuses. */
#define INSTANCE_SERVED 1

/* Find and make the directory (`given` as for directory_find()), take its lock, and remove the
 * sockets of an earlier daemon. INSTANCE_SERVED: another daemon serves the directory and, with
 * `replace`, did not exit. A failure is logged. */
int instance_open(struct instance *instance, const char *given, enum instance_access access,
		  bool replace);
/* Whether the file registry.sock was removed or replaced, e.g. with the directory. Then clients
 * can't find this daemon. */
bool instance_is_lost(const struct instance *instance);
/* Remove the sockets, but not the lock file: if that were removed and made again, two daemons could
 * each lock one. */
void instance_clear(const struct instance *instance);

/* Who can connect to the sockets in the folder. Access to buffers: state/session.h. */

/* Call before anything is opened. `for_system`: the users of the group `gid`, or all users if it is
 * IDENTITY_NO_GROUP. Otherwise, and by default: only this user. */
void socket_access_set(bool for_system, uint32_t gid);
/* Gives access to the socket at `path`, which only this user can open so far. false: errno. */
bool socket_access_open(const char *path);
/* Make a SOCK_SEQPACKET socket that listens there; only this user can connect. -1: errno. */
int socket_listen(const char *path);
/* Connect to such a socket, without waiting. -1: errno; EAGAIN: the socket's backlog is full. */
int socket_dial(const char *path, struct ucred *out_peer);

#endif
