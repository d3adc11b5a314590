/* SPDX-License-Identifier: MIT */
/* Names that outlive their owners: without one, with another one, in place of one, and gone. */
#include <string.h>
#include <sys/eventfd.h>

#include "os/clock.h"
#include "os/log.h"
#include "save.h"
#include "order_page.h"
#include "os/piece.h"
#include "registry.h"

void keep_count(struct entry *entry)
{
	if (!entry_is_kept(entry->info.flags))
		return;
	entry->kept_bytes = entry->info.base_size;
	user_add(entry->user, LIMIT_kept_bytes, entry->kept_bytes);
}

void keep_uncount(struct entry *entry)
{
	user_take(entry->user, LIMIT_kept_bytes, entry->kept_bytes);
	entry->kept_bytes = 0;
}

void keep_orphan(struct registry *registry, struct entry *entry)
{
	registry_disown(entry);
	entry->session = NULL;
	entry->info.owner_gone = true;
	DL_APPEND(registry->kept, entry);
	if (entry->info.ttl_s) {
		entry->deadline_ns = clock_ns() + entry->info.ttl_s * NS_PER_S;
		if (entry->deadline_ns < registry->keep_due_ns)
			registry->keep_due_ns = entry->deadline_ns;
		if (registry->wake >= 0)
			eventfd_write(registry->wake, 1);
	}
	save_entry(registry, entry);
	events_tell(registry, GPUSHARE_NOTICE_OWNER_GONE, entry, entry->owner.pid);
	order_check(registry, entry->info.generation);
	registry_lose(registry, entry);
}

bool keep_replace(struct registry *registry, struct entry *entry, struct session *session,
		  const record *info, const uint8_t *handle)
{
	struct entry *made = entry_new(info, handle);

	if (!made)
		return false;
	log_line("\"%s\", generation %llu, is replaced", entry->info.name,
		 (unsigned long long)entry->info.generation);
	events_tell(registry, GPUSHARE_NOTICE_REMOVE, entry, session->peer.pid);
	audit_removal(registry, entry, &session->peer, "replaced");
	DL_DELETE(registry->kept, entry);
	order_end(registry, entry->info.generation);
	registry_release(registry, entry);
	store_number(&registry->store, entry, 0);
	entry_become(entry, made); /* at the same place of the store */
	registry_begin(registry, entry, 0);
	registry_own(entry, session);
	keep_count(entry);
	save_entry(registry, entry);
	events_tell(registry, GPUSHARE_NOTICE_SHARE, entry, session->peer.pid);
	return true;
}

void keep_return(struct registry *registry, struct entry *entry, struct session *session)
{
	DL_DELETE(registry->kept, entry);
	registry_own(entry, session);
	save_entry(registry, entry);
	events_tell(registry, GPUSHARE_NOTICE_SHARE, entry, session->peer.pid);
	order_adopt(registry, entry->info.generation);
}

void keep_strand(struct registry *registry, struct entry *entry, struct session *session)
{
	entry->owner = (struct process){.uid = session->peer.uid};
	entry->info.owner_pid = 0;
	entry->info.owner_started = 0;
	*entry->info.owner_command = '\0';
	keep_orphan(registry, entry);
}

bool keep_is_alike(const struct entry *entry, const record *info)
{
	return entry->info.size == info->size && entry->info.backing == info->backing &&
	       !memcmp(entry->info.device_uuid, info->device_uuid, sizeof(info->device_uuid));
}

void keep_adopt(struct registry *registry, struct entry *entry, struct session *session,
		const record *info)
{
	keep_uncount(entry);
	entry->info.flags = info->flags;
	entry->info.ttl_s = info->ttl_s;
	keep_count(entry);
	keep_return(registry, entry, session);
}

/* No service manager has brought what was away. */
static void lose_away(struct registry *registry)
{
	struct entry *entry, *after;

	registry->away = false;
	registry->away_until_ns = 0;
	DL_FOREACH_SAFE(registry->kept, entry, after)
	{
		registry_lose(registry, entry);
	}
	save_begin(registry);
	save_flush(registry);
}

/* Of those whose time is up, as many as go in a piece. When the next one is due, INT64_MAX: none. */
static int64_t expire(struct registry *registry, int64_t now_ns)
{
	struct piece piece = piece_begin();
	int64_t next = INT64_MAX;
	struct entry *entry, *after;

	DL_FOREACH_SAFE(registry->kept, entry, after)
	{
		if (entry->deadline_ns > now_ns) {
			next = entry->deadline_ns < next ? entry->deadline_ns : next;
			continue;
		}
		if (piece_is_over(&piece)) {
			next = clock_ns() + PIECE_NS;
			break;
		}
		log_line("\"%s\" was kept for %u s", entry->info.name,
			 (unsigned int)entry->info.ttl_s);
		registry_remove(registry, entry, DEPARTURE_EXPIRED);
	}
	save_flush(registry);
	return next;
}

int64_t keep_expire(struct registry *registry, int64_t now_ns)
{
	if (registry->away_until_ns && registry->away_until_ns <= now_ns)
		lose_away(registry);
	if (registry->keep_due_ns <= now_ns)
		registry->keep_due_ns = expire(registry, now_ns);
	if (registry->away_until_ns && registry->away_until_ns < registry->keep_due_ns)
		return registry->away_until_ns;
	return registry->keep_due_ns;
}
