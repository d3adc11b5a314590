/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_TOMBSTONE_H
#define GPUSHARE_REGISTRY_TOMBSTONE_H
/* Tombstones: who had a name that was removed, and why it was removed. Only the latest ones are
 * kept, and only for a while. */
#include "os/process.h"
#include "state/limit.h"

struct entry;

enum departure {
	DEPARTURE_OWNER_GONE, /* the connection ended */
	DEPARTURE_WITHDRAWN,  /* its owner freed it */
	DEPARTURE_EXPIRED,    /* kept, and its ttl ran out */
	DEPARTURE_LOST,	      /* after a restart, nobody was left to bring its memory back */
	DEPARTURE_UNLINKED,   /* somebody with the right to do so unlinked it */
};

struct tombstone {
	char name[GPUSHARE_NAME_MAX + 1]; /* "": none */
	struct process owner;
	uint32_t gid, mode;
	bool staged; /* nobody but its owner's process has seen it */
	enum departure how;
	int64_t when_ns;
};

struct tombstones {
	struct tombstone ring[LIMIT_TOMBSTONES];
	unsigned int next;
};

void tombstone_add(struct tombstones *tombstones, const struct entry *entry, enum departure how,
		   int64_t now_ns);
/* The latest of that name; NULL: none, or too long ago. */
const struct tombstone *tombstone_find(const struct tombstones *tombstones, const char *name,
				       int64_t now_ns);

#endif
