/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "registry.h"

#define TICK_NS NS_PER_S

void events_init(struct events *events)
{
	events->wake = -1;
}

static struct event *take(struct events *events)
{
	struct event *event;

	if (!events->count)
		return NULL;
	event = events->waiting[events->first];
	events->first = (events->first + 1) % LIMIT_EVENTS;
	events->count--;
	return event;
}

void event_release(struct event *event)
{
	if (!--event->users)
		free(event);
}

struct event *events_take(struct registry *registry)
{
	return take(&registry->events);
}

void events_finish(struct events *events)
{
	struct watcher *watcher, *after;

	while (events->count)
		event_release(take(events));
	HASH_ITER (hh, events->watchers, watcher, after) {
		HASH_DEL(events->watchers, watcher);
		free(watcher);
	}
}

static struct watcher *find(const struct events *events, uint32_t id)
{
	struct watcher *found;

	HASH_FIND(hh, events->watchers, &id, sizeof(id), found);
	return found;
}

bool events_enter(struct registry *registry, uint32_t id, uint32_t uid)
{
	struct events *events = &registry->events;
	struct user *user = user_of(&registry->users, uid);
	struct watcher *watcher;

	if (!user || registry->leaving || limit_check(registry, user, LIMIT_watchers, 1, NULL))
		return false;
	watcher = calloc(1, sizeof(*watcher));
	if (!watcher)
		return false;
	watcher->id = id;
	watcher->user = user;
	HASH_ADD(hh, events->watchers, id, sizeof(watcher->id), watcher);
	if (watcher->hh.tbl) {
		user_add(user, LIMIT_watchers, 1);
		return true;
	}
	free(watcher);
	return false;
}

void events_leave(struct registry *registry, uint32_t id)
{
	struct events *events = &registry->events;
	struct watcher *watcher = find(events, id);

	if (!watcher)
		return;
	HASH_DEL(events->watchers, watcher);
	user_take(watcher->user, LIMIT_watchers, 1);
	free(watcher);
	if (events->watchers)
		return;
	events->ticked_ns = 0;
	events->left_ns = clock_ns();
}

/* The oldest makes room where nobody was in time to send it. What can't be kept shows by the gap in
 * the serials. */
static void put(struct events *events, size_t size)
{
	struct event *event = malloc(sizeof(*event) + size);

	if (!event)
		return;
	*event = (struct event){
	    .users = 1,
	    .serial = events->serial,
	    .is_about = events->notice.has_buffer,
	    .uid = events->notice.buffer.owner_uid,
	    .gid = events->notice.buffer.owner_gid,
	    .mode = events->notice.buffer.mode,
	    .size = size,
	};
	memcpy(event->bytes, events->wire, size);
	if (events->count == LIMIT_EVENTS)
		event_release(take(events));
	events->waiting[(events->first + events->count) % LIMIT_EVENTS] = event;
	events->count++;
	if (events->wake >= 0)
		eventfd_write(events->wake, 1);
}

/* events->notice, with what all have. */
static void send(struct registry *registry)
{
	struct events *events = &registry->events;
	size_t size;

	events->notice.serial = events->serial;
	events->notice.unix_ns = clock_unix_ns();
	events->notice.registry = registry->started_unix_ns;
	if (!codec_encode_notice(&events->notice, events->wire, sizeof(events->wire), &size))
		put(events, size);
}

void events_welcome(struct registry *registry, uint32_t id)
{
	if (registry->leaving || !find(&registry->events, id))
		return; /* or it would take us for its next registry */
	registry->events.notice = (notice){0};
	send(registry);
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
	if (keep_is_staged(entry->info.flags) || !begin(registry, kind, pid))
		return;
	registry_tell(registry, NULL, entry, &registry->events.notice.buffer);
	send(registry);
}

void events_tell_departure(struct registry *registry, const struct entry *entry, enum departure how)
{
	switch (how) {
	case DEPARTURE_LEASE:
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
			    const struct lease *lease, const struct attachment *attachment,
			    const struct entry *entry)
{
	record *info = &registry->events.notice.buffer;

	if (entry) {
		events_tell(registry, kind, entry, lease->peer.pid);
		return;
	}
	if (attachment->quiet || !begin(registry, kind, lease->peer.pid))
		return;
	strcpy(info->name, attachment->name);
	info->generation = attachment->generation;
	info->owner_uid =
	    lease->peer.uid; /* whose it was nobody knows any more: it is told alone */
	send(registry);
}

void events_published(struct registry *registry, const struct entry *entry, uint64_t published,
		      uint64_t rate)
{
	notice *told = &registry->events.notice;

	if (keep_is_staged(entry->info.flags) ||
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
