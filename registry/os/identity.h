/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_IDENTITY_H
#define GPUSHARE_REGISTRY_IDENTITY_H
/* Who a peer is where rights are asked for: its user and its groups, as the kernel tells them. */
#include <stddef.h>

#include "os/process.h"

#define IDENTITY_NO_GROUP UINT32_MAX /* that nobody is in */

struct identity {
	uint32_t uid;
	uint32_t gid;	  /* of its connection; IDENTITY_NO_GROUP: not known */
	uint32_t *groups; /* the others, ordered; NULL: none, or its process is not visible here */
	size_t count;	  /* of those */
};

/*
 * `gid` is what SO_PEERCRED told with the peer's uid. The other groups are those of its process in /proc,
 * where that is still the one that was seen when it connected, under the same user and group.
 */
void identity_read(struct identity *identity, const struct process *peer, uint32_t gid);
void identity_finish(struct identity *identity);
bool identity_is_in(const struct identity *identity, uint32_t gid);

/* A group as somebody has called it, and which that is. */
struct identity_group {
	char name[64];
	int status; /* GPUSHARE_OK; E_NOT_FOUND: there is none; E_IO: that can't be found out now */
	uint32_t gid;
};

/* By name or number. A name may be asked of the host's name service, and waited for: never under a lock.
 * `uid` is who asks: a second look-up of the same user at a time is answered by E_IO. */
void identity_find_group(const char *name, uint32_t uid, struct identity_group *out_group);

#endif
