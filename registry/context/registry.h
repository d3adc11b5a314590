/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REGISTRY_H
#define GPUSHARE_REGISTRY_REGISTRY_H
/* The struct that the daemon's modules share behind one lock, and the functions that span
 * several modules. It does not depend on nng. */
#include <pthread.h>

#include "observe/audit.h"
#include "observe/events.h"
#include "observe/pages.h"
#include "state/buffer.h"

/* Descriptors of the current request: `came` with the request, `goes` with the answer. Each is
 * NULL or holds a reference. */
struct passing {
	struct fdref *came, *goes;
};

struct registry {
	/* protects everything below; never held over a call that waits for a client */
	pthread_mutex_t lock;
	pthread_mutex_t queue; /* held by the thread that gets `lock` next: registry_lock() */
	int64_t locked_ns;     /* when the lock was taken last */
	int64_t held_most_ns;  /* the longest time that the lock was held */
	struct state state;    /* users, sessions and buffers */
	bool is_system;	       /* --system: it serves all users */
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
	/* descriptors of the current request; NULL: it came to registry.sock */
	struct passing *passing;
	bool leaving;		   /* shutting down: requests are no longer answered */
	struct order *orders;	   /* by generation: order/order.h */
	struct order *marking;	   /* list of orders whose marks are being repeated */
	bool loading;		   /* the predecessor's records are being read */
	uint64_t loaded_namespace; /* pid namespace of those records; 0: it is ours */
	struct ask *asks;	   /* parked requests: server/ask.h */
	int wake;		   /* eventfd that wakes the main loop; -1: there is none */
	bool due;		   /* the main loop has work: registry_unlock() wakes it */
	bool rests; /* no look_around() is due: the next registry_lock() must wake the main loop */
	uint64_t started_unix_ns;
	reply reply;			   /* the answer being built */
	uint8_t wire[gpushare_Reply_size]; /* the same, encoded */
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
/* Remove names and attachments of sessions that have left, but stop at `until_ns`: a process may
 * have a million. Names with KEEP stay without an owner. */
void registry_end(struct registry *registry, int64_t until_ns);
/* Remove kept buffers whose ttl has run out, for PIECE_NS at most. Returns when to call again;
 * INT64_MAX: no buffer expires. */
int64_t registry_expire(struct registry *registry, int64_t now_ns);

/* Pass a change of the state to all modules that depend on it, in a fixed order. */
void registry_observe(void *context, const struct change *change);
/* While there are subscribers, send notices once a second of what was published. Returns when to
 * call again; INT64_MAX: there is no subscriber. */
int64_t registry_rates(struct registry *registry, int64_t now_ns);

/* Put the buffer's current record into the index, or remove it if clients must ask for it. */
void registry_show(struct registry *registry, struct entry *entry);

/* Fill in what `session` may know of the buffer (NULL: what anybody may). The address of an ipc
 * buffer is set only for the owner's process, the handle never. */
void registry_describe(const struct registry *registry, const struct session *session,
		       const struct entry *entry, record *out_info);

#endif
