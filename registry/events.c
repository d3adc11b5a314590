/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "state/access.h"
#include "os/clock.h"
#include "explain.h"
#include "registry.h"
#include "quota.h"

#define TICK_NS NS_PER_S

/* Those who have it to be told share it. */
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
	const struct known info = {.owner_uid = told->buffer.owner_uid,
				   .owner_gid = told->buffer.owner_gid,
				   .mode = told->buffer.mode};

	return !told->has_buffer || access_rights(&info, &watcher->session->who) & ACCESS_SEE;
}

/* events->notice, with what all have, as one that users may be given. NULL: no memory, which shows by the gap
 * in the serials. */
static struct event *make(struct registry *registry)
{
	struct events *events = &registry->events;
	struct event *event = malloc(sizeof(*event));

	if (!event)
		return NULL;
	events->notice.serial = events->serial;
	events->notice.unix_ns = clock_unix_ns();
	events->notice.registry = registry->started_unix_ns;
	*event = (struct event){.users = 1, .notice = events->notice};
	return event;
}

static void send(struct registry *registry)
{
	struct events *events = &registry->events;
	struct event *event = make(registry);
	struct watcher *watcher;

	if (!event)
		return;
	DL_FOREACH(events->watchers, watcher)
	{
		if (may_see(watcher, &event->notice))
			give(watcher, event);
		else
			watcher->hidden++;
	}
	release(event);
	if (!events->news && registry->wake >= 0)
		eventfd_write(registry->wake, 1);
	events->news = true;
}

int events_enter(struct registry *registry, struct session *session, reply *answer)
{
	struct events *events = &registry->events;
	int status = limit_check(registry, session->user, LIMIT_watchers, 1, answer);
	struct watcher *watcher;
	struct event *welcome;

	if (status)
		return status;
	watcher = calloc(1, sizeof(*watcher));
	events->notice = (notice){0};
	welcome = watcher ? make(registry) : NULL;
	if (!welcome) {
		free(watcher);
		return explain(answer, GPUSHARE_E_NO_MEMORY, "no memory for another watcher");
	}
	watcher->session = session;
	give(watcher, welcome);
	release(welcome);
	DL_APPEND(events->watchers, watcher);
	session->watcher = watcher;
	user_add(session->user, LIMIT_watchers, 1);
	return GPUSHARE_OK;
}

void events_leave(struct registry *registry, struct session *session)
{
	struct events *events = &registry->events;
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
		events->ticked_ns = 0;
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

/* Count it; false: nobody wants to know. Connections that end because this registry leaves are no
 * news: their processes live, and its successor knows them. */
static bool begin(struct registry *registry, enum gpushare_notice_kind kind, int32_t pid)
{
	struct events *events = &registry->events;

	if (registry->leaving)
		return false;
	events->serial++;
	if (!events->watchers)
		return false;
	events->notice = (notice){.kind = kind, .has_buffer = true, .pid = pid};
	return true;
}

void events_tell(struct registry *registry, enum gpushare_notice_kind kind,
		 const struct entry *entry, int32_t pid)
{
	if (entry_is_staged(entry->info.flags) || !begin(registry, kind, pid))
		return;
	registry_tell(registry, NULL, entry, &registry->events.notice.buffer);
	send(registry);
}

void events_tell_departure(struct registry *registry, const struct entry *entry, enum departure how)
{
	switch (how) {
	case DEPARTURE_OWNER_GONE:
		events_tell(registry, GPUSHARE_NOTICE_OWNER_GONE, entry, entry->owner.pid);
		break;
	case DEPARTURE_WITHDRAWN:
		events_tell(registry, GPUSHARE_NOTICE_WITHDRAW, entry, entry->owner.pid);
		break;
	case DEPARTURE_UNLINKED:
		events_tell(registry, GPUSHARE_NOTICE_UNLINK, entry, registry->events.actor);
		break;
	case DEPARTURE_EXPIRED:
		events_tell(registry, GPUSHARE_NOTICE_EXPIRE, entry, 0);
		break;
	case DEPARTURE_LOST:
		events_tell(registry, GPUSHARE_NOTICE_REMOVE, entry, 0);
		break;
	}
}

void events_tell_attachment(struct registry *registry, enum gpushare_notice_kind kind,
			    const struct session *session, const struct attachment *attachment,
			    const struct entry *entry)
{
	record *info = &registry->events.notice.buffer;

	if (entry) {
		events_tell(registry, kind, entry, session->peer.pid);
		return;
	}
	if (attachment->quiet || !begin(registry, kind, session->peer.pid))
		return;
	strcpy(info->name, attachment->name);
	info->generation = attachment->generation;
	info->owner_uid =
	    session->peer.uid; /* whose it was nobody knows any more: it is told alone */
	send(registry);
}

void events_published(struct registry *registry, const struct entry *entry, uint64_t published,
		      uint64_t rate)
{
	notice *told = &registry->events.notice;

	if (entry_is_staged(entry->info.flags) ||
	    !begin(registry, GPUSHARE_NOTICE_PUBLISH, entry->owner.pid))
		return;
	registry_tell(registry, NULL, entry, &told->buffer);
	told->published = published;
	told->rate = rate;
	send(registry);
}

int64_t events_due(struct registry *registry, int64_t now_ns)
{
	struct events *events = &registry->events;
	int64_t before_ns = events->ticked_ns;

	if (!events->watchers || !events->tick)
		return INT64_MAX;
	if (before_ns && now_ns < before_ns + TICK_NS)
		return before_ns + TICK_NS;
	events->ticked_ns = now_ns;
	events->tick(registry, before_ns ? now_ns - before_ns : 0);
	return now_ns + TICK_NS;
}
