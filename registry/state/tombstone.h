/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_TOMBSTONE_H
#define GPUSHARE_REGISTRY_TOMBSTONE_H
/* Who had a name that has gone, and why it went; for a while, and for the latest ones only. */
#include "os/process.h"
#include "state/limit.h"

struct entry;

enum departure {
	DEPARTURE_OWNER_GONE, /* the connection ended */
	DEPARTURE_WITHDRAWN,  /* its owner took it back */
	DEPARTURE_EXPIRED,    /* kept, and its ttl ran out */
	DEPARTURE_LOST,	      /* nobody was left to bring its memory back after a restart */
	DEPARTURE_UNLINKED,   /* somebody else of the same user took it away */
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
