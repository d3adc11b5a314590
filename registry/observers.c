/* SPDX-License-Identifier: MIT */
/* The effects of a change of the state on the other modules. */
#include <string.h>
#include <sys/eventfd.h>

#include "context/registry.h"

#include "os/clock.h"
#include "os/log.h"
#include "order/order.h"
#include "fdstore/fdstore.h"
#include "persist/records.h"
#include "persist/persist.h"

/* The index leaves out a staged buffer; with --system, a buffer that not everybody may read; and a
 * buffer with a stream-sync page, because clients publish there without the registry. */
void registry_show(struct registry *registry, struct entry *entry)
{
	if (order_find(registry, entry->info.generation) || entry_is_staged(entry->info.flags) ||
	    (registry->is_system && (entry->info.mode & 0444) != 0444))
		indexer_remove(&registry->index, entry);
	else
		indexer_put(&registry->index, entry);
}

enum {
	SAVE = 1,    /* write the record */
	GONE = 2,    /* remove the record */
	PUT = 4,     /* store the descriptor, before a record refers to it */
	RELEASE = 8, /* release the descriptor */
	MARK = 16,   /* changes page: the name may have another buffer */
	SHOW = 32,   /* show it in the index */
	HIDE = 64,
	DEPART = 128, /* audit line, and a notice that says why: departures[] */
};

/*
 * The effects of each change of a buffer, carried out from left to right: first what survives the
 * daemon, then the notice, then the order, because a notice still has the order's fields. A notice
 * has the pid of the change's session, or else of the owner.
 */
static const struct effect {
	unsigned int what;
	enum gpushare_notice_kind notice; /* 0: none */
	void (*order)(struct registry *registry, uint64_t generation);
} effects[] = {
    [CHANGE_SHARE] = {SAVE | MARK | SHOW, GPUSHARE_NOTICE_SHARE, order_check},
    [CHANGE_RETURN] = {SAVE | MARK | SHOW, GPUSHARE_NOTICE_SHARE, order_adopt},
    [CHANGE_HOLD] = {PUT | SAVE | SHOW, 0, NULL},
    [CHANGE_UPDATE] = {SAVE | SHOW, 0, NULL},
    [CHANGE_COMMIT] = {SAVE | MARK | SHOW, GPUSHARE_NOTICE_SHARE, NULL},
    [CHANGE_ORPHAN] = {SAVE | SHOW, GPUSHARE_NOTICE_OWNER_GONE, order_check},
    [CHANGE_REPLACE] = {RELEASE, GPUSHARE_NOTICE_REMOVE, order_end},
    [CHANGE_REMOVE] = {RELEASE | GONE | MARK | HIDE | DEPART, 0, order_end},
    [CHANGE_DEFER] = {RELEASE | SAVE | MARK | HIDE | DEPART, 0, order_check},
    [CHANGE_CONFIRM] = {SAVE, GPUSHARE_NOTICE_DEFERRED, order_check},
    [CHANGE_FREE] = {RELEASE | GONE | MARK | HIDE, GPUSHARE_NOTICE_REMOVE, order_end},
};

static const struct {
	enum gpushare_notice_kind notice;
	const char *audited;
	bool by_owner;
} departures[] = {
    [DEPARTURE_OWNER_GONE] = {GPUSHARE_NOTICE_OWNER_GONE, "owner_gone", true},
    [DEPARTURE_WITHDRAWN] = {GPUSHARE_NOTICE_WITHDRAW, "withdrawn", true},
    [DEPARTURE_EXPIRED] = {GPUSHARE_NOTICE_EXPIRE, "expired", false},
    [DEPARTURE_LOST] = {GPUSHARE_NOTICE_REMOVE, "lost", false},
    [DEPARTURE_UNLINKED] = {GPUSHARE_NOTICE_UNLINK, "unlinked", false},
};

static void release(struct registry *registry, struct entry *entry)
{
	if (entry->fdref && !registry->loading)
		registry_release(registry, entry->fdref);
	entry->fdref = NULL;
}

/* Make a notice with the public data of `entry`, which may be NULL. NULL: there is none. */
static notice *notify(struct registry *registry, enum gpushare_notice_kind kind,
		      const struct entry *entry, int32_t pid)
{
	notice *notice;

	/* No notices while the registry leaves: connections end, but their processes live on. */
	if (!kind || registry->leaving || registry->loading ||
	    (entry && entry_is_staged(entry->info.flags)))
		return NULL;
	notice = events_begin(&registry->events, kind, pid, registry->state.unix_ns);
	if (notice && entry)
		registry_describe(registry, NULL, entry, &notice->buffer);
	return notice;
}

static void depart(struct registry *registry, const struct change *change)
{
	const struct entry *entry = change->entry;
	const struct process *by = departures[change->how].by_owner ? entry_owner(entry) : NULL;

	/* Only an unlink is the act of the peer whose request is being handled. Otherwise the
	 * request may just have made the registry notice that the owner has ended. */
	if (change->how == DEPARTURE_UNLINKED)
		by = registry->asking;
	if (change->how == DEPARTURE_LOST)
		log_line("\"%s\" is lost", entry->name);
	else if (change->how == DEPARTURE_EXPIRED)
		log_line("\"%s\" is removed: it was kept for %u s", entry->name, entry->info.ttl_s);
	notify(registry,
	       entry->info.deferred ? GPUSHARE_NOTICE_DEFERRED : departures[change->how].notice,
	       entry, by ? by->pid : 0);
	audit_removal(&registry->audit, entry, by ? by : entry_owner(entry),
		      departures[change->how].audited);
}

static void observe_buffer(struct registry *registry, const struct change *change)
{
	const struct effect *effect = &effects[change->kind];
	struct entry *entry = change->entry;

	if (effect->what & PUT && registry->fdstore)
		fdstore_put(registry->fdstore, entry->fdref);
	if (effect->what & RELEASE)
		release(registry, entry);
	if (effect->what & SAVE)
		save_entry(registry, entry);
	if (effect->what & GONE)
		records_drop(registry->records, &entry->record_slot);
	if (effect->what & MARK)
		changes_mark(&registry->changes, entry->name);
	if (effect->what & SHOW && !entry->info.nameless)
		registry_show(registry, entry);
	if (effect->what & HIDE)
		indexer_remove(&registry->index, entry);
	if (change->kind == CHANGE_REPLACE) {
		log_line("\"%s\", generation %llu, is replaced", entry->name,
			 (unsigned long long)entry->info.generation);
		audit_removal(&registry->audit, entry, &change->session->peer, "replaced");
	}
	if (effect->what & DEPART)
		depart(registry, change);
	else
		notify(registry, effect->notice, entry,
		       change->session ? change->session->peer.pid : entry_owner(entry)->pid);
	if (effect->order)
		effect->order(registry, entry->info.generation);
}

static void observe_attachment(struct registry *registry, const struct change *change)
{
	enum gpushare_notice_kind kind =
	    change->kind == CHANGE_ATTACH ? GPUSHARE_NOTICE_ATTACH : GPUSHARE_NOTICE_DETACH;
	struct attachment *attachment = change->attachment;
	const struct process *peer = &change->session->peer;
	struct entry *entry = change->entry;
	notice *notice;

	save_attachment(registry, change->session, attachment);
	/* the owner reads in the changes page whether the last attacher has left */
	if (entry && entry->info.nameless)
		changes_left(&registry->changes, entry->info.generation, !entry->info.attachers);
	else if (entry)
		indexer_update(&registry->index, entry);
	if (entry) {
		notify(registry, kind, entry, peer->pid);
	} else if (!attachment->quiet && (notice = notify(registry, kind, NULL, peer->pid))) {
		/* The owner is unknown, so only the attacher's user gets the notice. */
		strcpy(notice->buffer.name, attachment->name);
		notice->buffer.generation = attachment->generation;
		notice->buffer.owner_uid = peer->uid;
	}
	if (change->kind == CHANGE_DETACH)
		order_check(registry, attachment->generation);
}

void registry_observe(void *context, const struct change *change)
{
	struct registry *registry = context;
	bool news = registry->events.news;

	switch (change->kind) {
	case CHANGE_ATTACH:
	case CHANGE_DETACH:
		observe_attachment(registry, change);
		break;
	case CHANGE_ROLES:
		save_participant(registry, change->participant);
		break;
	case CHANGE_SEEN:
		save_session(registry, change->session);
		break;
	case CHANGE_LEAVE:
		/*
		 * Drop the session's record first. If the registry is killed right after, its
		 * successor must not restore the session, although the process may live on.
		 */
		records_drop(registry->records, &change->session->record_slot);
		events_leave(&registry->events, change->session);
		order_end_session(registry, change->session);
		break;
	default:
		observe_buffer(registry, change);
	}
	/* Wake the main loop for the deadline of a kept buffer, or for notices. */
	if (registry->wake >= 0 && (change->kind == CHANGE_ORPHAN || registry->events.news > news))
		eventfd_write(registry->wake, 1);
}

/* Publications a second, rounded, but at least 1: a buffer in use is not shown with 0. */
static uint64_t a_second(uint64_t count, int64_t elapsed_ns)
{
	double rate = (double)count * (double)NS_PER_S / (double)elapsed_ns;

	return rate < 1 ? 1 : (uint64_t)(rate + 0.5);
}

static void notify_rate(struct registry *registry, struct order *order, int64_t elapsed_ns)
{
	uint64_t published = order->page ? order_published(order->page) : order->rated;
	uint64_t more = published - order->rated;
	bool rises = published > order->rated;
	const struct entry *entry = NULL;
	notice *notice;

	order->rated = published;
	if (rises && elapsed_ns) /* first the cheap test: most pages have no new publication */
		entry = store_find_generation(&registry->state.store, order->generation);
	if (!entry ||
	    !(notice = notify(registry, GPUSHARE_NOTICE_PUBLISH, entry, entry_owner(entry)->pid)))
		return;
	notice->published = published;
	notice->rate = a_second(more, elapsed_ns);
}

int64_t registry_rates(struct registry *registry, int64_t now_ns)
{
	struct events *events = &registry->events;
	int64_t before_ns = events->rated_ns;
	struct order *order, *after;

	if (!events->watchers)
		return INT64_MAX;
	if (before_ns && now_ns < before_ns + NS_PER_S)
		return before_ns + NS_PER_S;
	events->rated_ns = now_ns;
	HASH_ITER (hh, registry->orders, order, after) {
		notify_rate(registry, order, before_ns ? now_ns - before_ns : 0);
	}
	return now_ns + NS_PER_S;
}
