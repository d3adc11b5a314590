/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LIMIT_H
#define GPUSHARE_REGISTRY_LIMIT_H
#include <stdint.h>

/*
 * Limits of all users together and of each user; a request beyond one gets E_LIMIT. X(key, limit of
 * all, limit of one user, text after the number, remedy). registry.conf calls the limits KEY and
 * user_KEY. users.h counts against them.
 */
#define LIMITS(X) \
	X(names, 4000000, 1000000, "names are shared", "free or unlink some") \
	X(kept_bytes, 1099511627776, 1099511627776, "bytes are kept", \
	  "'gpushare ls' lists kept buffers, 'gpushare rm NAME' removes one") \
	X(descriptors, 100000, 50000, "descriptors are held", \
	  "free some vmm or unified buffers, or raise the registry's 'ulimit -n' and the limit") \
	X(attachments, 4000000, 1000000, "attachments are held", "detach some") \
	X(connections, 40000, 10000, "connections are open", "end some programs") \
	X(waiters, 1024, 256, "requests wait for a name", "ask again without waiting") \
	X(watchers, 4096, 1024, "watchers listen", "end some of them") \
	X(deferred, 4000000, 1000000, "buffers without a name are held", "detach some of them") \
	X(tags, 16000000, 4000000, "tags are set", "remove some")

/* How many of the latest notices subscribers can still get. */
#define LIMIT_EVENTS 1024

#define LIMIT_WAIT_MS (24u * 60 * 60 * 1000) /* a longer wait is shortened to this */
/* Steps of matching names against a pattern that one List takes under the lock: about 0.8 ms at
 * most. */
#define LIMIT_LIST_WORK 100000
#define LIMIT_LIST_LOOK 64 /* steps charged for each visible name, whether it matches or not */
/* Hidden names (the peer may not see them) that a List skips before it releases the lock: 0.5 ms
 * at most. */
#define LIMIT_LIST_HIDDEN 5000
#define LIMIT_PAGE 50	      /* names in one ListReply: registry.options */
#define LIMIT_PAGE_UNASKED 16 /* if the request gives no number: older clients accept no more */
#define LIMIT_TOMBSTONES 1024
#define LIMIT_TOMBSTONE_S 600

/* Connections beyond the limit that get an error message instead of a closed socket. */
#define LIMIT_CONNECTIONS_SPARE 100
/* How long a connection to fds.sock may be silent. Its client connects again when it needs to. */
#define LIMIT_FDS_SILENT_MS 5000

/* Refused descriptors of one user that wait to be closed. At this number the registry receives
 * no more from the user's connections to fds.sock, and closes them. */
#define LIMIT_FDS_REFUSED 256

/* How long the registry repeats a mark in a stream-sync page after it found the mark missing,
 * and how long a consumer's slot stays unused after the end of its process: order/README.md. */
#define LIMIT_ORDER_SETTLE_MS 10000

/* After a restart: how long sessions in other pid namespaces have to reconnect. The registry
 * can't see whether their processes live. */
#define LIMIT_UNSEEN_S 30

enum limit {
#define X(key, ...) LIMIT_##key,
	LIMITS(X)
#undef X
	    LIMIT_KINDS,
};

/* In a struct, because registry.conf and tests may change them. */
struct limits {
	uint64_t of_all[LIMIT_KINDS], of_user[LIMIT_KINDS];
	uint64_t message_bytes;
	/* time to send Hello, finish a message or read an answer */
	int64_t silent_ns;
	uint64_t together; /* connections and descriptors together; UINT64_MAX: no limit */
	uint64_t spare;	   /* LIMIT_CONNECTIONS_SPARE, or less if RLIMIT_NOFILE is low */
};

#endif
