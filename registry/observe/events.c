/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <stdlib.h>

#include "state/access.h"

/* A notice, shared by the subscribers that have it in their queues. */
struct event {
	unsigned int users;
	notice notice;
};

static void release(struct event *event)
{
	if (!--event->users)
		free(event);
}

static struct event *take_oldest(struct watcher *watcher)
{
	struct event *event = watcher->waiting[watcher->first].event;

	watcher->first = (watcher->first + 1) % LIMIT_EVENTS;
	watcher->count--;
	return event;
}

static void give(struct watcher *watcher, struct event *event)
{
	if (watcher->count == LIMIT_EVENTS)
		release(take_oldest(watcher));
	event->users++;
	watcher->waiting[(watcher->first + watcher->count++) % LIMIT_EVENTS].event = event;
	watcher->waiting[(watcher->first + watcher->count - 1) % LIMIT_EVENTS].serial =
	    event->notice.serial - watcher->hidden;
}

static bool may_see(const struct watcher *watcher, const notice *told)
{
	const record *info = &told->buffer;

	return access_grants(info->owner_uid, info->owner_gid, info->mode, &watcher->session->who) &
	       ACCESS_SEE;
}

/* Copy events->notice. NULL: out of memory, which subscribers see by the gap in the serials. */
static struct event *make(struct events *events)
{
	struct event *event = malloc(sizeof(*event));

	if (event)
		*event = (struct event){.users = 1, .notice = events->notice};
	return event;
}

int events_enter(struct events *events, struct session *session, uint64_t unix_ns)
{
	struct watcher *watcher = calloc(1, sizeof(*watcher));
	struct event *welcome;

	events->notice =
	    (notice){.serial = events->serial, .unix_ns = unix_ns, .registry = events->registry};
	welcome = watcher ? make(events) : NULL;
	if (!welcome) {
		free(watcher);
		return GPUSHARE_E_NO_MEMORY;
	}
	watcher->session = session;
	give(watcher, welcome);
	release(welcome);
	DL_APPEND(events->watchers, watcher);
	session->watcher = watcher;
	user_add(session->user, LIMIT_watchers, 1);
	return GPUSHARE_OK;
}

void events_leave(struct events *events, struct session *session)
{
	struct watcher *watcher = session->watcher;

	if (!watcher)
		return;
	while (watcher->count)
		release(take_oldest(watcher));
	DL_DELETE(events->watchers, watcher);
	user_take(session->user, LIMIT_watchers, 1);
	session->watcher = NULL;
	free(watcher);
	if (!events->watchers)
		events->rated_ns = 0;
}

bool events_take(struct watcher *watcher, gpushare_SubscribeReply *out_reply)
{
	const pb_size_t most = sizeof(out_reply->notices) / sizeof(*out_reply->notices);

	while (watcher->count && out_reply->notices_count < most) {
		notice *told = &out_reply->notices[out_reply->notices_count++];
		uint64_t serial = watcher->waiting[watcher->first].serial;
		struct event *event = take_oldest(watcher);

		*told = event->notice;
		told->serial = serial;
		release(event);
	}
	return out_reply->notices_count;
}

notice *events_begin(struct events *events, enum gpushare_notice_kind kind, int32_t pid,
		     uint64_t unix_ns)
{
	events->serial++;
	if (!events->watchers)
		return NULL;
	events->notice = (notice){.kind = kind,
				  .has_buffer = true,
				  .pid = pid,
				  .serial = events->serial,
				  .unix_ns = unix_ns,
				  .registry = events->registry};
	return &events->notice;
}

void events_send(struct events *events)
{
	struct event *event = make(events);
	struct watcher *watcher;

	if (!event)
		return;
	DL_FOREACH (events->watchers, watcher) {
		if (may_see(watcher, &event->notice))
			give(watcher, event);
		else
			watcher->hidden++;
	}
	release(event);
	events->news = true;
}
