/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REGISTRY_H
#define GPUSHARE_REGISTRY_REGISTRY_H
/* The struct that the daemon's modules share, behind one lock, and the functions that use several
 * modules. Nothing here depends on nng. */
#include <pthread.h>

#include "observe/audit.h"
#include "observe/events.h"
#include "observe/pages.h"
#include "state/buffer.h"

/* Descriptors of a request to fds.sock: `came` came with it, `goes` is sent with the answer. Each
 * is NULL or a reference. */
struct passing {
	struct fdref *came, *goes;
};

struct registry {
	/* protects everything below; not held during a call that may wait for a client */
	pthread_mutex_t lock;
	pthread_mutex_t queue; /* held by the thread that gets `lock` next: see registry_lock() */
	int64_t locked_ns;     /* when the lock was taken last */
	int64_t held_most_ns;  /* the longest time that the lock was held */
	struct state state;    /* users, sessions and buffers */
	bool is_system;	       /* the registry serves all users (--system) */
	struct changes changes;
	struct indexer index;
	struct events events;
	struct records *records; /* NULL: the registry writes no records */
	struct fdstore *fdstore; /* NULL: none */
	/* Deadline for disconnected sessions in other pid namespaces to reconnect:
	 * persist/persist.c */
	int64_t unseen_until_ns;
	uint64_t pid_namespace; /* the registry's own pid namespace; 0: unknown */
	struct audit audit;
	const struct process *asking; /* the peer whose request is being handled; NULL: none */
	/* descriptors of the current request; NULL: the request came to registry.sock */
	struct passing *passing;
	bool leaving;		   /* shutting down: requests are no longer answered */
	struct order *orders;	   /* by generation: order/order.h */
	struct order *marking;	   /* list of orders whose marks are being repeated */
	bool loading;		   /* true while the predecessor's records are being read */
	uint64_t loaded_namespace; /* pid namespace of those records; 0: it is our own */
	struct ask *asks;	   /* parked requests: struct ask of verbs/handlers.h */
	int wake;		   /* eventfd that wakes the main loop; -1: there is none */
	bool due;		   /* the main loop has work, so registry_unlock() wakes it */
	/* no look_around() (main.c) is due; the next registry_lock() must wake the main loop */
	bool rests;
	uint64_t started_unix_ns;
	reply reply;			   /* the answer being built */
	uint8_t wire[gpushare_Reply_size]; /* that answer, encoded */
};

/* The registry is never freed. NULL: out of memory. */
struct registry *registry_new(void);

void registry_lock(struct registry *registry);
void registry_unlock(struct registry *registry);

/* All functions below need the lock held. */

/* fdstore_release(), or fdref_release() without an fd store. */
void registry_release(struct registry *registry, struct fdref *fdref);
/* Create a session. NULL: out of memory. */
struct session *registry_connect(struct registry *registry, uint32_t id,
				 const struct process *peer);
/* Remove the names and attachments of sessions that have ended, until `until_ns` at most, because a
 * process may have a million. Names with KEEP stay without an owner. */
void registry_end(struct registry *registry, int64_t until_ns);
/* Remove kept buffers whose ttl has run out, for PIECE_NS at most. Returns when to call this again;
 * INT64_MAX: no buffer will expire. */
int64_t registry_expire(struct registry *registry, int64_t now_ns);

/* Pass a change of the state to all modules that depend on it, in a fixed order. */
void registry_observe(void *context, const struct change *change);
/* While there are subscribers, make a notice once a second for each buffer that was published
 * since. Returns when to call this again; INT64_MAX: there is no subscriber. */
int64_t registry_rates(struct registry *registry, int64_t now_ns);

/* Put the buffer's current record into the index, or remove the record, if clients must ask the
 * registry about this buffer. */
void registry_show(struct registry *registry, struct entry *entry);

/* Set *out_info to what `session` may know of the buffer; NULL: what any client may know. The
 * address of an ipc buffer is set only for the owner's process. */
void registry_describe(const struct registry *registry, const struct session *session,
		       const struct entry *entry, record *out_info);

#endif
