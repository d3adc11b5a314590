/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_H
#define GPUSHARE_REGISTRY_EVENTS_H
/*
 * Notices to subscribers. The latest LIMIT_EVENTS notices are in a ring, from which each subscriber
 * takes those that it may see. Without subscribers, notices are only counted. All functions need
 * the registry's lock held.
 */
#include "protocol.h"
#include "state/limit.h"
#include "state/session.h"

struct events {
	unsigned int watchers;
	notice *ring;	   /* NULL: there are no subscribers */
	uint64_t registry; /* start time of the registry, which each notice has */
	uint64_t serial;   /* of the latest notice, whether it is in the ring or not */
	/* when registry_rates() last looked at publications; 0: not since there are subscribers */
	int64_t rated_ns;
	bool news; /* there is a new notice; asks_resume() resets this */
};

/* Subscribe the session. OK or E_NO_MEMORY. */
int events_enter(struct events *events, struct session *session);
/* Unsubscribe the session, if it is a subscriber. */
void events_leave(struct events *events, struct session *session);
/* Move the subscriber's notices into the answer, up to its capacity. Serials are numbered as if
 * notices that the subscriber may not see did not exist. false: there were none. */
bool events_take(const struct events *events, struct session *session,
		 gpushare_SubscribeReply *out_reply);
/* Add a notice, for the caller to fill in. NULL: there are no subscribers. */
notice *events_begin(struct events *events, enum gpushare_notice_kind kind, int32_t pid,
		     uint64_t unix_ns);

#endif
