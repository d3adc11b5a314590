/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REGISTRY_H
#define GPUSHARE_REGISTRY_REGISTRY_H
/* The modules of the daemon behind one lock, and what each does when the state changes. Knows nothing of nng. */
#include <pthread.h>

#include "observe/audit.h"
#include "observe/events.h"
#include "observe/pages.h"
#include "state/buffer.h"
#include "state/fdref.h"

struct registry {
	pthread_mutex_t lock; /* over everything below; never held over a call that may block */
	int64_t locked_ns;    /* since when it is held */
	int64_t held_most_ns; /* at a time, so far */
	struct state state;   /* what it remembers */
	bool is_system;	      /* it serves every user: --system */
	struct identity_group group; /* that the share in hand names, looked up beforehand */
	struct changes changes;
	struct indexer index;
	struct events events;
	struct records *records; /* NULL: nothing is written down */
	uint64_t record_slot;	 /* see persist/save.h: of what holds for all of it */
	struct {
		uint64_t generation; /* buffers up to this one have a record, ... */
		uint32_t session;    /* ...sessions before this one have theirs, ... */
		uint64_t attachment; /* ...and it has those of attachments up to this one */
	} saved;		     /* of all, while that is written: persist/save.c */
	struct fdstore *fdstore;     /* NULL: none */
	int64_t
	    unseen_until_ns; /* so long disconnected sessions that can't be watched have: persist/restore.c */
	uint64_t pid_namespace; /* whose numbers pids are here; 0: it can't be told */
	struct audit audit;
	const struct process *asking; /* whose request is carried out; NULL: nobody's */
	struct list_rest *list_rest;  /* of the List in hand, where it goes on: handlers.h */
	struct passing *passing;   /* of the request in hand; NULL: it did not come to fds.sock */
	bool leaving;		   /* no request is answered any more */
	struct order *orders;	   /* by generation: order/order.h */
	struct order *marking;	   /* those that are marked again */
	bool loading;		   /* the records are being read... */
	uint64_t loaded_namespace; /* ...whose pids are another namespace's; 0: they are ours */
	struct ask *asks;	   /* that are parked: server/ask.h */
	int wake;		   /* eventfd: there is a deadline more; -1: nobody asks */
	bool rests; /* the main loop has nothing to look after, until somebody takes the lock */
	uint64_t started_unix_ns;
	reply reply;			   /* room to make one answer in */
	uint8_t wire[gpushare_Reply_size]; /* and its bytes */
};

/* It lives as long as its process. NULL: out of memory. */
struct registry *registry_new(void);

void registry_lock(struct registry *registry);
void registry_unlock(struct registry *registry);

/* All below want the lock held. */

/* A peer came. NULL: out of memory. */
struct session *registry_connect(struct registry *registry, uint32_t id,
				 const struct process *peer);
/* Names and attachments of sessions that have left go (names with KEEP stay, without an owner), until the time is
 * up: a process may have a million. */
void registry_end(struct registry *registry, int64_t until_ns);
/* It leaves, and all that leave end at once. */
void registry_disconnect(struct registry *registry, struct session *session);
/* Withdraw `name` if its owner has ended and the registry has not heard of that yet. `by`, who shares the
 * name now, may be the owner's own process after exec(). */
void registry_bury(struct registry *registry, const struct session *by, const char *name);
/* Remove the kept buffers whose time is up; when the next one's will be, INT64_MAX: none. */
int64_t registry_expire(struct registry *registry, int64_t now_ns);

/* observers.c: carry a change of the state to all who must know, in a fixed order. */
void registry_observe(void *context, const struct change *change);
/* Once a second while somebody watches: notices of what was published. When the next time is, INT64_MAX: never. */
int64_t registry_rates(struct registry *registry, int64_t now_ns);

/* The index says what stands under a name, as it is now. */
void registry_show(struct registry *registry, struct entry *entry);

/* What `session` may know of it: an ipc buffer's address only in the owner's process, never the
 * handle. NULL: anybody. */
void registry_describe(const struct registry *registry, const struct session *session,
		       const struct entry *entry, record *out_info);

#endif
