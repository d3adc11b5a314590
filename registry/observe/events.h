/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_H
#define GPUSHARE_REGISTRY_EVENTS_H
/*
 * Notices to watchers: each has what it may see, up to LIMIT_EVENTS notices, of which the oldest goes first.
 * With nobody watching they are only counted. All want the registry's lock held.
 */
#include "protocol.h"
#include "state/limit.h"
#include "state/session.h"

struct ask;
struct event;

/* A session that watches. */
struct watcher {
	struct session *session;
	struct ask *ask; /* its Subscribe that waits: server/ask.c; NULL: none */
	struct {
		struct event *event;
		uint64_t serial; /* as it counts them: what it may not see leaves no gap */
	} waiting[LIMIT_EVENTS];
	unsigned int first, count; /* of those */
	uint64_t hidden;	   /* so many were not for it */
	struct watcher *prev, *next;
};

struct events {
	struct watcher *watchers;
	uint64_t registry; /* in each notice: when the registry was started */
	uint64_t serial;   /* of the latest, sent or not */
	int64_t ticked_ns; /* 0: not since somebody watches */
	bool news;	   /* for somebody; the main loop resets it */
	notice notice;	   /* room to make one in */
};

/* The session watches from now on, and hears the latest serial first. OK or E_NO_MEMORY. */
int events_enter(struct events *events, struct session *session, uint64_t unix_ns);
/* It may be no watcher. */
void events_leave(struct events *events, struct session *session);
/* What waits for it goes into the answer, as much as that holds. false: nothing does. */
bool events_take(struct watcher *watcher, gpushare_SubscribeReply *out_reply);

/* One more: events->notice for the caller to fill in and to send; NULL: nobody watches. */
notice *events_begin(struct events *events, enum gpushare_notice_kind kind, int32_t pid,
		     uint64_t unix_ns);
void events_send(struct events *events);

/* Once a second while somebody watches, publications are counted. Sets when the next time is, INT64_MAX: never.
 * Returns the time since the one before, 0: it is not time, or was the first one. */
int64_t events_tick(struct events *events, int64_t now_ns, int64_t *out_next_ns);

#endif
