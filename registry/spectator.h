/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SPECTATOR_H
#define GPUSHARE_REGISTRY_SPECTATOR_H
/* A connection that watches, as nng's SUB speaks: its greeting, and what waits to be sent to it. */
#include "events.h"
#include "identity.h"

struct spectator {
	int fd;
	uint32_t id;
	struct identity who;
	uint8_t greeting[SP_GREETING_SIZE];
	size_t heard; /* bytes of that */
	struct spectator_event {
		struct event *event;
		uint64_t serial; /* as it counts them */
	} waiting[LIMIT_EVENTS];
	unsigned int first, count; /* of those */
	uint64_t hidden;	   /* so many were not for it */
	uint8_t *frame;		   /* that is being sent; NULL: none */
	size_t size, sent;	   /* of it */
	bool is_full;		   /* its socket is... */
	int64_t full_ns;	   /* ...since then */
	int64_t begun_ns;
	struct user *user;
	struct spectator *prev, *next;
};

/* `fd` and the groups of `who` are its own then. NULL: out of memory. */
struct spectator *spectator_new(int fd, uint32_t id, const struct identity *who);
/* Returns NULL. */
struct spectator *spectator_free(struct spectator *spectator);
static inline bool spectator_is_greeted(const struct spectator *spectator)
{
	return spectator->heard == SP_GREETING_SIZE;
}
/* What it says, of which there is nothing after the greeting. False: it is to be closed. */
bool spectator_hear(struct spectator *spectator);
/* Another reference, for a while; or nothing, where it may not see what that is about. */
void spectator_tell(struct spectator *spectator, struct event *event);
/* What the socket takes. False: it has gone. */
bool spectator_send(struct spectator *spectator);

#endif
