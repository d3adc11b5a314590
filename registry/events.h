/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_H
#define GPUSHARE_REGISTRY_EVENTS_H
/*
 * What happens to buffers, for those who watch: each watcher has what it may see of it, up to LIMIT_EVENTS
 * notices, of which the oldest goes first. With nobody watching only its number is counted. All want the
 * registry's lock held.
 */
#include "state/limit.h"
#include "protocol.h"
#include "state/tombstone.h"

struct ask;
struct attachment;
struct entry;
struct event;
struct session;
struct registry;

/* A session that watches. */
struct watcher {
	struct session *session;
	struct ask
	    *ask; /* its Subscribe that waits: server/ask.c; NULL: it has not asked again so far */
	struct {
		struct event *event;
		uint64_t serial; /* as it counts them: what it may not see leaves no gap */
	} waiting[LIMIT_EVENTS];
	unsigned int first, count; /* of those */
	uint64_t hidden;	   /* so many were not for it */
	struct watcher *prev, *next;
};

/*
 * Once a second while somebody watches: whoever knows what was published says so by
 * events_published(). `elapsed_ns` since the call before; 0: the first one since somebody watches, from
 * which to count.
 */
typedef void events_tick(struct registry *registry, int64_t elapsed_ns);

struct events {
	struct watcher *watchers;
	uint64_t serial; /* of the latest, told or not */
	int32_t actor;	 /* pid of the peer whose request is carried out; 0: none */
	events_tick *tick;
	int64_t ticked_ns; /* 0: not since somebody watches */
	bool news;	   /* for somebody, and the main loop knows */
	notice notice;	   /* room to make one in */
};

/* The session watches from now on, and is told the latest serial first, from which on it misses nothing
 * unknowingly. OK, E_LIMIT or E_NO_MEMORY, with a sentence. */
int events_enter(struct registry *registry, struct session *session, reply *answer);
/* It has gone. */
void events_leave(struct registry *registry, struct session *session);
/* What waits for it goes into the answer, as much as that holds. false: nothing does. */
bool events_take(struct watcher *watcher, gpushare_SubscribeReply *out_reply);

void events_tell(struct registry *registry, enum gpushare_notice_kind kind,
		 const struct entry *entry, int32_t pid);
/* It leaves the store for that reason. */
void events_tell_departure(struct registry *registry, const struct entry *entry,
			   enum departure how);
/* ATTACH, DETACH; `entry` is NULL where what was attached has gone. */
void events_tell_attachment(struct registry *registry, enum gpushare_notice_kind kind,
			    const struct session *session, const struct attachment *attachment,
			    const struct entry *entry);
/* From a tick: the latest sequence, and how many a second. */
void events_published(struct registry *registry, const struct entry *entry, uint64_t published,
		      uint64_t rate);
/* Carry out what is due; when the next tick is, INT64_MAX: nobody watches, or nobody asked for it. */
int64_t events_due(struct registry *registry, int64_t now_ns);

#endif
