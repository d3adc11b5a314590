/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LIMIT_H
#define GPUSHARE_REGISTRY_LIMIT_H
/* What one registry takes on. */
#include <stdint.h>

/*
 * What is answered by E_LIMIT, of all users together and of each: X(key, of all, of one, so many, what
 * helps). In registry.conf they are called KEY and user_KEY. user_of() counts them.
 */
#define LIMITS(X) \
	X(names, 4000000, 1000000, "names are shared", "free or unlink some") \
	X(kept_bytes, 1099511627776, 1099511627776, "bytes are kept", \
	  "'gpushare ls' shows what is kept, 'gpushare rm NAME' lets go of it") \
	X(descriptors, 100000, 50000, "descriptors are held", \
	  "free some buffers that are not cudaMalloc's, or raise its 'ulimit -n' and the limit") \
	X(attachments, 4000000, 1000000, "attachments are held", "detach some") \
	X(connections, 40000, 10000, "connections are open", "end some programs") \
	X(waiters, 1024, 256, "requests wait for a name", "ask again without waiting") \
	X(watchers, 4096, 1024, "watchers listen", "end some of them") \
	X(deferred, 4000000, 1000000, "buffers have no name any more", \
	  "who has them attached must let go of them") \
	X(tags, 16000000, 4000000, "tags are set", "take some away")

/* Notices that wait for one watcher; the oldest goes first. */
#define LIMIT_EVENTS 1024

#define LIMIT_WAIT_MS (24u * 60 * 60 * 1000) /* a longer wait is shortened to this */
/* Steps of comparing names with a pattern that one List takes, under the lock: some 0.8 ms at most. */
#define LIMIT_LIST_WORK 100000
#define LIMIT_LIST_LOOK 64 /* steps that a name takes to be looked at, whether it fits or not */
/* Names that the peer may not see, of which one List passes so many at a time: 0.5 ms at most. */
#define LIMIT_LIST_HIDDEN 5000
/* The lists of one user have half of the lock's time. They may use that much of it beforehand; then each
 * waits for its turn. Beyond LIMIT_LISTS_QUEUED of one user, a List is answered by E_LIMIT. */
#define LIMIT_LISTS_AHEAD_MS 1
#define LIMIT_LISTS_QUEUED 256
#define LIMIT_PAGE 50	      /* names in one ListReply: registry.options */
#define LIMIT_PAGE_UNASKED 16 /* where it is not said how many: older clients take no more */
#define LIMIT_TOMBSTONES 1024
#define LIMIT_TOMBSTONE_S 600

/* Connections over the limit that still hear a sentence instead of a closed socket. */
#define LIMIT_CONNECTIONS_SPARE 100
/* How long a connection to fds.sock, which need last for one message only, may be silent. */
#define LIMIT_FDS_SILENT_MS 5000

/* Descriptors of one user that were refused and wait to be closed; more of them are not received. */
#define LIMIT_FDS_REFUSED 256

/* So long a mark in an order page is made again after it was found missing, and a consumer's slot is
 * not another one's: order/README.md. */
#define LIMIT_ORDER_SETTLE_MS 10000

/* After a restart: how long one of before has to come back of whom only that can tell that it lives, as
 * it is in another pid namespace. */
#define LIMIT_UNSEEN_S 30

#define LIMIT_KEY_MAX 23 /* bytes of a key: Count.what of registry.options */

enum limit {
#define X(key, ...) LIMIT_##key,
	LIMITS(X)
#undef X
	    LIMIT_KINDS,
};

/* In a struct, so that a test and an administrator can set them lower. */
struct limits {
	union {
		struct {
#define X(key, ...) uint64_t key;
			LIMITS(X)
#undef X
		};
		uint64_t of_all[LIMIT_KINDS];
	};
	uint64_t of_user[LIMIT_KINDS];
	uint64_t message_bytes;
	int64_t silent_ns; /* that a connection has to ask, to end its message, or to read */
	uint64_t together; /* connections and descriptors; UINT64_MAX: any */
	uint64_t spare;	   /* LIMIT_CONNECTIONS_SPARE, or what there are descriptors for */
};

#endif
