/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_H
#define GPUSHARE_REGISTRY_EVENTS_H
/*
 * Notices to subscribers. Each subscriber has a queue of up to LIMIT_EVENTS notices that it may
 * see; if the queue is full, the oldest notice is dropped. Without subscribers, notices are only
 * counted. All functions need the registry's lock held.
 */
#include "protocol.h"
#include "state/limit.h"
#include "state/session.h"

struct ask;
struct event;

/* A subscriber: a session that gets notices. */
struct watcher {
	struct session *session;
	struct ask *ask; /* its parked Subscribe: server/ask.c; NULL: none */
	struct {
		struct event *event;
		uint64_t serial; /* numbered for this subscriber: hidden notices leave no gap */
	} waiting[LIMIT_EVENTS];
	unsigned int first, count; /* of `waiting` */
	uint64_t hidden;	   /* how many notices it was not allowed to see */
	struct watcher *prev, *next;
};

struct events {
	struct watcher *watchers;
	uint64_t registry; /* in each notice: when the registry was started */
	uint64_t serial;   /* of the latest, sent or not */
	/* when the rates of publications were last made; 0: not since there are subscribers */
	int64_t rated_ns;
	bool news;     /* a subscriber has a new notice; the main loop resets it */
	notice notice; /* the notice being made */
};

/* Subscribe the session. Its first notice has the latest serial. OK or E_NO_MEMORY. */
int events_enter(struct events *events, struct session *session, uint64_t unix_ns);
/* Unsubscribe the session, if it is a subscriber. */
void events_leave(struct events *events, struct session *session);
/* Move the subscriber's notices into the answer, as many as it holds. false: there were none. */
bool events_take(struct watcher *watcher, gpushare_SubscribeReply *out_reply);

/* Begin a notice: events->notice, for the caller to fill in and then events_send(). NULL: there
 * are no subscribers. */
notice *events_begin(struct events *events, enum gpushare_notice_kind kind, int32_t pid,
		     uint64_t unix_ns);
void events_send(struct events *events);

#endif
