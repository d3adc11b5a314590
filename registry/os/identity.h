/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_IDENTITY_H
#define GPUSHARE_REGISTRY_IDENTITY_H
/* A peer's user and groups, by which the registry judges its rights. */
#include <stddef.h>

#include "os/process.h"

#define IDENTITY_NO_GROUP UINT32_MAX /* nobody is in it */

struct identity {
	uint32_t uid;
	uint32_t gid;	  /* of its connection; IDENTITY_NO_GROUP: unknown */
	uint32_t *groups; /* supplementary groups; NULL: none, or not visible here */
	size_t count;
};

/* `gid` is SO_PEERCRED's. Supplementary groups are read from /proc, if the pid still belongs to the
 * process that connected, with the same user and group. */
void identity_read(struct identity *identity, const struct process *peer, uint32_t gid);
void identity_finish(struct identity *identity);
bool identity_is_in(const struct identity *identity, uint32_t gid);

/* A group's name, as a request gives it, and what was found. */
struct identity_group {
	char name[64];
	int status; /* GPUSHARE_OK; E_NOT_FOUND: no such group; E_IO: the look-up failed */
	uint32_t gid;
};

/* Find a group by name or number. By name it may take long: then never call it under a lock. */
void identity_find_group(const char *name, struct identity_group *out_group);

#endif
