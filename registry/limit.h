/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LIMIT_H
#define GPUSHARE_REGISTRY_LIMIT_H
/* What one registry takes on. The first group is answered by E_LIMIT and a sentence. */
#include <stdint.h>

#define LIMIT_NAMES 1000000
#define LIMIT_ATTACHMENTS 1000000
#define LIMIT_CONNECTIONS 10000
#define LIMIT_WAITERS 256
#define LIMIT_WATCHERS 1024
/* Memory of the names with KEEP, by what each one's allocation takes; --keep-limit says another. */
#define LIMIT_KEPT_BYTES (UINT64_C(1) << 40)
#define LIMIT_FDS 100000	  /* kept for records; less where RLIMIT_NOFILE says so */
#define LIMIT_FDS_PER_PROCESS 256 /* deposited and not shared, or attached and not fetched */

/* Notices that wait to be sent, and that wait for one watcher; the oldest goes first. nng takes 8192
 * at most. */
#define LIMIT_EVENTS 1024

#define LIMIT_WAIT_MS (24u * 60 * 60 * 1000) /* a longer wait is shortened to this */
#define LIMIT_PAGE 16			     /* names in one ListReply: registry.options */
#define LIMIT_TOMBSTONES 1024
#define LIMIT_TOMBSTONE_S 600
#define LIMIT_SUGGESTIONS 3
#define LIMIT_SUGGESTION_SCAN 10000 /* names compared with one that was not found */

/* Connections over LIMIT_CONNECTIONS that still hear a sentence instead of a closed socket. */
#define LIMIT_CONNECTIONS_SPARE 100
/* Answers that may pile up, and how long each may, while a peer does not read: each holds a
 * context. What such a peer asks beyond that is not answered. */
#define LIMIT_UNREAD 4
#define LIMIT_UNREAD_MS 5000

/* How long a ticket serves; then its descriptor goes. */
#define LIMIT_TICKET_MS 10000
/* Connections to fds.sock, which need last for one message only, of all and of one process, and how
 * long one may be silent. */
#define LIMIT_FDS_CONNECTIONS 1024
#define LIMIT_FDS_CONNECTIONS_PER_PROCESS 64
#define LIMIT_FDS_SILENT_MS 5000

/* So long a mark in an order page is made again after it was found missing, and a consumer's slot is
 * not another one's: order_page.h. */
#define LIMIT_ORDER_SETTLE_MS 10000

/* Contexts that can take a request: at the start, and when to open more. All of them together
 * suffice for every waiter and some answers under way. */
#define LIMIT_CONTEXTS_FIRST 16
#define LIMIT_CONTEXTS_LOW 8
#define LIMIT_CONTEXTS (LIMIT_WAITERS + 64)

/* After a restart: how long one of before has to come back of whom only that can tell that it lives, as
 * it is in another pid namespace. */
#define LIMIT_UNSEEN_S 30

/* How long what is kept waits for its memory, where that is with a service manager who has started
 * another registry than this one. */
#define LIMIT_AWAY_S 600

/* In a struct, so that a test can set them lower. */
struct limits {
	uint64_t names;
	uint64_t attachments;
	uint64_t connections;
	uint64_t waiters;
	uint64_t kept_bytes;
	uint64_t watchers;
};

#define LIMITS_DEFAULT \
	((struct limits){LIMIT_NAMES, LIMIT_ATTACHMENTS, LIMIT_CONNECTIONS, LIMIT_WAITERS, \
			 LIMIT_KEPT_BYTES, LIMIT_WATCHERS})

#endif
