/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SOCKET_ACCESS_H
#define GPUSHARE_REGISTRY_SOCKET_ACCESS_H
/* Access to the folder and its sockets: for this user, a group, or everybody. state/access.h
 * judges requests. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSTEM_DIRECTORY "/run/gpushare/system" /* of --system, without --dir */

/* Call before anything is opened; the default is this user alone. `gid` IDENTITY_NO_GROUP:
 * everybody. */
void socket_access_set(bool for_system, uint32_t gid);
/* Gives access to the socket at `path`, which only this user can open so far. false: errno. */
bool socket_access_open(const char *path);
/* A descriptor that listens there; -1: errno. */
int socket_access_listen(const char *path, int type);
/* Make or take over the folder of a registry for all users, and mark it. Returns a status; on
 * failure, `why` is the error message. */
int socket_access_prepare(const char *path, char *why, size_t why_size);

#endif
