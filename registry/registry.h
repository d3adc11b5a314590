/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REGISTRY_H
#define GPUSHARE_REGISTRY_REGISTRY_H
/* All that the daemon remembers, behind one lock. Knows nothing of nng. */
#include <pthread.h>

#include "audit.h"
#include "events.h"
#include "observe/changes.h"
#include "observe/indexer.h"
#include "persist/records.h"
#include "state/counts.h"
#include "state/generation.h"
#include "state/session.h"
#include "state/limit.h"
#include "state/store.h"
#include "state/tally.h"
#include "state/tombstone.h"
#include "state/users.h"
#include "fdtable.h"

/* A lookup or attach whose name is not there yet, or what is done in pieces. */
struct waiter {
	struct session *session;
	const request *ask;
	int64_t deadline_ns;
	struct ask *work; /* whose answer is owed */
	bool audited;	  /* it waits for what it may not see, and a line says so */
	bool more;	  /* for no name, but for its next piece: HANDLE_MORE */
	struct waiter *prev, *next;
};

struct deferred_place {
	uint64_t generation;
	struct entry *entry; /* NULL: it has gone */
};

struct registry {
	pthread_mutex_t lock; /* over everything below; never held over a call that may block */
	int64_t locked_ns;    /* since when it is held */
	int64_t held_most_ns; /* at a time, so far */
	struct limits limits;
	struct tally *tallies; /* of what stands */
	struct users users;
	bool is_system;		     /* it serves every user: --system */
	struct identity_group group; /* that the share in hand names, looked up beforehand */
	struct store store;
	struct changes changes;
	struct indexer index;
	struct sessions sessions;
	struct tombstones tombstones;
	struct fdtable fdtable;
	struct events events;
	struct generation generation;
	struct records records;
	unsigned int record_slot; /* see save.h: of what holds for all of it */
	struct fdstore *fdstore;  /* NULL: none */
	uint64_t since;		  /* what got a generation above this one is here, or has gone */
	int64_t
	    unseen_until_ns; /* so long disconnected sessions that can't be watched have: restore.c */
	bool away;	     /* a predecessor's descriptors are a service manager's */
	uint64_t pid_namespace; /* whose numbers pids are here; 0: it can't be told */
	const char *config; /* the file that holds here, for a successor; NULL: the default one */
	int64_t away_until_ns;	      /* so long nothing is lost for that; 0: it is not so */
	struct audit *audit;	      /* NULL: none */
	const struct process *asking; /* whose request is carried out; NULL: nobody's */
	struct list_rest *list_rest;  /* of the List in hand, where it goes on: handlers.h */
	struct passing *passing; /* of the request in hand; NULL: it did not come to fds.sock */
	bool leaving;		 /* no request is answered any more */
	struct session *ending;	 /* the first is ended first */
	struct entry *kept;	 /* whose owners have gone */
	int64_t keep_due_ns;	 /* none of these is due before */
	struct deferred_place *deferred;    /* without a name, ordered by generation: limbo.c */
	size_t nameless;		    /* entries in it */
	size_t deferred_end, deferred_room; /* places */
	struct order *orders;		    /* by generation: order_page.h */
	struct order *marking;		    /* those that are marked again */
	bool loading;			    /* the records are being read... */
	uint64_t loaded_namespace; /* ...whose pids are another namespace's; 0: they are ours */
	struct waiter *waiters;
	uint64_t waiter_count;
	struct counts counts;
	int wake; /* eventfd: there is a deadline more; -1: nobody asks */
	uint64_t started_unix_ns;
	uint64_t records_most; /* at a time, since freed memory was last given back to the kernel */
	reply reply;	       /* room to make one answer in */
	uint8_t wire[gpushare_Reply_size]; /* and its bytes */
};

/* NULL: out of memory. */
struct registry *registry_new(void);
/* Ends every session that is left; what was written down of them stays. Returns NULL. */
struct registry *registry_free(struct registry *registry);
/* Records and descriptors are not this one's any more; `keep` them for a successor. */
void registry_let_go(struct registry *registry, bool keep);

void registry_lock(struct registry *registry);
void registry_unlock(struct registry *registry);

/* All below want the lock held. */

/* A peer came. NULL: out of memory. */
struct session *registry_connect(struct registry *registry, uint32_t id,
				 const struct process *peer);
/* A peer went: its waiters come back as a list for the caller, its place in orders goes, and
 * nobody finds it, or what it had, any more. */
struct waiter *registry_leave(struct registry *registry, struct session *session);
/* Of one that has left, names and attachments go (names with KEEP stay, without an owner), until the time is
 * up: a process may have a million. false: all of it has gone, and the session with it. */
bool registry_end(struct registry *registry, struct session *session, int64_t until_ns);
/* It leaves, and all of it ends at once. */
struct waiter *registry_disconnect(struct registry *registry, struct session *session);
/* `name` goes now if its owner is ending. */
void registry_end_name(struct registry *registry, const char *name);
/* Some of the names go of an owner that is ending, of that user alone (NULL: any). false: there is none. */
bool registry_end_some(struct registry *registry, const struct user *user);

/* What a new buffer begins with, and what its owner brings. `again`: the generation that it had; 0:
 * it is new. */
void registry_begin(struct registry *registry, struct entry *entry, uint64_t again);
void registry_own(struct entry *entry, struct session *session);
/* It stands among the names of its session no more. */
void registry_disown(struct entry *entry);
/* NULL: out of memory. */
struct entry *registry_add(struct registry *registry, struct session *session, const record *info,
			   const uint8_t *handle, uint64_t again);
/* Its descriptor; the reference is the entry's. */
void registry_hold(struct registry *registry, struct entry *entry, struct held *held);
void registry_release(struct registry *registry, struct entry *entry);
/* It goes; nobody is told why. */
void registry_drop(struct registry *registry, struct entry *entry);
void registry_remove(struct registry *registry, struct entry *entry, enum departure how);
/* The owner went: the name goes, or is kept. true: it is kept. */
bool registry_part(struct registry *registry, struct entry *entry);
/* Of what is missing: true, and it goes, when nobody is left who could bring it back, and no service
 * manager has it. */
bool registry_lose(struct registry *registry, struct entry *entry);
/* That many of a generation, whether it is here or not. NULL: out of memory. */
struct attachment *registry_set(struct registry *registry, struct session *session,
				const char *name, uint64_t generation, unsigned int count);
/* What was attached before `entry`, which it is an attachment of, was known here. */
void registry_join(const struct session *session, struct attachment *attachment,
		   struct entry *entry);
/* All of these, of a new entry. */
void registry_count(struct registry *registry, struct entry *entry);
/* `count` fewer; what was attached may have gone, or go with that. */
void registry_detach(struct registry *registry, struct session *session,
		     struct attachment *attachment, unsigned int count);
/* Whether it is known that this was here and has gone, and not only that it isn't here. */
bool registry_has_gone(const struct registry *registry, const char *name, uint64_t generation);
/* What is attached as that, named or in limbo; NULL: it has gone. */
struct entry *registry_find(const struct registry *registry, const char *name, uint64_t generation);
/* Withdraw `name` if its owner has ended and the registry has not heard of that yet. `by`, who shares the
 * name now, may be the owner's own process after exec(). */
void registry_bury(struct registry *registry, const struct session *by, const char *name);

/* keep.c: names that outlive their owners. */
/* Its bytes are among those that are kept, owner or not; and no more. */
void keep_count(struct entry *entry);
void keep_uncount(struct entry *entry);
/* No owner from now on; its ttl runs. It may be lost with that: see registry_lose(). */
void keep_orphan(struct registry *registry, struct entry *entry);
/* In place of what is kept without an owner: a new buffer, a new generation. false: out of memory, nothing
 * changed. */
bool keep_replace(struct registry *registry, struct entry *entry, struct session *session,
		  const record *info, const uint8_t *handle);
/* The owner, thought to have gone, is back. */
void keep_return(struct registry *registry, struct entry *entry, struct session *session);
/* Nothing is known of the owner but that it has gone; `session` is of one who has it attached. */
void keep_strand(struct registry *registry, struct entry *entry, struct session *session);
/* Whether that is what `info` would make anew. */
bool keep_is_alike(const struct entry *entry, const record *info);
/* What is kept without an owner has one again, with what that asks for. */
void keep_adopt(struct registry *registry, struct entry *entry, struct session *session,
		const record *info);
/* Remove those whose time is up; when the next one's will be, INT64_MAX: none. */
int64_t keep_expire(struct registry *registry, int64_t now_ns);

/* limbo.c: what has no name any more: freed by its owner, who holds the memory for others who have it
 * attached (info.in_limbo), or unlinked, and not freed yet. */
/* From the names to there, without its descriptor. false: out of memory or too many, nothing changed. */
bool deferred_enter(struct registry *registry, struct entry *entry, enum departure how);
/* What has no name in the store. false: out of memory or too many. */
bool deferred_insert(struct registry *registry, struct session *session, struct entry *entry);
/* Its memory is gone, or goes now. */
void deferred_leave(struct registry *registry, struct entry *entry);
/* Its place alone: its order goes on, for what is entered with its generation next. Returns where its record
 * is, which the caller drops: see save.h. */
unsigned int deferred_give_up(struct registry *registry, struct entry *entry);
/* NULL: not there. */
struct entry *deferred_find(const struct registry *registry, uint64_t generation);
/* The position of the first generation above `after`. */
size_t deferred_seek(const struct registry *registry, uint64_t after);
/* What stands at *at or behind it, and *at is behind that; NULL: nothing. */
struct entry *deferred_after(const struct registry *registry, size_t *at);

void registry_park(struct registry *registry, struct waiter *waiter);
void registry_unpark(struct registry *registry, struct waiter *waiter);
/* INT64_MAX: nobody waits. */
int64_t registry_next_deadline_ns(const struct registry *registry);

/* It stands under its name, as it is now: so says the index, too. */
void registry_show(struct registry *registry, struct entry *entry);

/* It is about to lose its name: so say the pages that clients map. */
void registry_hide(struct registry *registry, struct entry *entry);

/* What `session` may know of it: an ipc buffer's address only in the owner's process, never the
 * handle. NULL: anybody. */
void registry_tell(const struct registry *registry, const struct session *session,
		   const struct entry *entry, record *out_info);

#endif
