/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SOCKET_ACCESS_H
#define GPUSHARE_REGISTRY_SOCKET_ACCESS_H
/* Who can open the folder and its sockets: this user, a group, or everybody. state/access.h judges requests. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOOR_DIRECTORY "/run/gpushare/system" /* of --system, without --dir */

/* Before anything is opened; without it, this user alone. `gid`: IDENTITY_NO_GROUP for everybody. */
void socket_access_set(bool for_system, uint32_t gid);
/* Opens the socket at `path`, which is this user's alone so far, to those. false: errno. */
bool socket_access_open(const char *path);
/* A descriptor that listens there; -1: errno. */
int socket_access_listen(const char *path, int type);
/* Makes or takes over the folder of a registry for all users, and marks it. A status; `why` is its sentence. */
int socket_access_prepare(const char *path, char *why, size_t why_size);

#endif
