/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <stdlib.h>

#include "state/session.h"

int events_enter(struct events *events, struct session *session)
{
	if (!events->ring)
		events->ring = calloc(LIMIT_EVENTS, sizeof(*events->ring));
	if (!events->ring)
		return GPUSHARE_E_NO_MEMORY;
	events->watchers++;
	session->watches = true;
	session->passed = events->serial;
	user_add(session->user, LIMIT_watchers, 1);
	return GPUSHARE_OK;
}

void events_leave(struct events *events, struct session *session)
{
	if (!session->watches)
		return;
	session->watches = false;
	user_take(session->user, LIMIT_watchers, 1);
	if (--events->watchers)
		return;
	events->rated_ns = 0;
	free(events->ring);
	events->ring = NULL;
}

bool events_take(const struct events *events, struct session *session,
		 gpushare_SubscribeReply *out_reply)
{
	const pb_size_t most = sizeof(out_reply->notices) / sizeof(*out_reply->notices);

	if (events->serial - session->passed > LIMIT_EVENTS)
		session->passed = events->serial - LIMIT_EVENTS;
	while (session->passed < events->serial && out_reply->notices_count < most) {
		const notice *next = &events->ring[++session->passed % LIMIT_EVENTS];
		const record *info = &next->buffer;

		if (access_grants(info->owner_uid, info->owner_gid, info->mode, &session->who) &
		    ACCESS_SEE) {
			out_reply->notices[out_reply->notices_count] = *next;
			out_reply->notices[out_reply->notices_count++].serial -= session->hidden;
		} else {
			session->hidden++;
		}
	}
	return out_reply->notices_count;
}

notice *events_begin(struct events *events, enum gpushare_notice_kind kind, int32_t pid,
		     uint64_t unix_ns)
{
	notice *begun;

	events->serial++;
	if (!events->ring)
		return NULL;
	begun = &events->ring[events->serial % LIMIT_EVENTS];
	*begun = (notice){.kind = kind,
			  .has_buffer = true,
			  .pid = pid,
			  .serial = events->serial,
			  .unix_ns = unix_ns,
			  .registry = events->registry};
	events->news = true;
	return begun;
}
