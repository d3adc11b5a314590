/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_DOOR_H
#define GPUSHARE_REGISTRY_DOOR_H
/* Whom the directory and its sockets let in: this user, a group, or all. What one may do then is
 * access.h's affair. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOOR_DIRECTORY "/run/gpushare/system" /* where --system serves if not told otherwise */

/* Once, before anything is opened: this user alone without. `gid`: IDENTITY_NO_GROUP for all. */
void socket_access_set(bool is_system, uint32_t gid);
/* A socket's mode. */
unsigned int socket_access_mode(void);
/* The socket at `path`, which its maker has closed to all others, is let open. False: errno. */
bool socket_access_open(const char *path);
/* Without nng: a descriptor that listens there, or -1 and errno. */
int socket_access_listen(const char *path, int type);
/* Make the directory of a registry for all, or take one that is this user's, and mark it as that. A
 * status, and the sentence for it. */
int socket_access_prepare(const char *path, char *why, size_t why_size);

#endif
