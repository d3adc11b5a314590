/* SPDX-License-Identifier: MIT */
#include "context/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "os/clock.h"
#include "fdstore/fdstore.h"
#include "persist/records.h"
#include "os/log.h"
#include "persist/persist.h"
#include "order/order.h"

#define SPIN_NS 10000 /* about as long as a thread takes to fall asleep and to be woken */

static void set_time(struct registry *registry)
{
	registry->locked_ns = registry->state.now_ns = clock_ns();
	registry->state.unix_ns = clock_unix_ns();
}

struct registry *registry_new(void)
{
	struct registry *registry = calloc(1, sizeof(*registry));
	struct stat is;

	if (!registry)
		return NULL;
	pthread_mutex_init(&registry->lock, NULL);
	pthread_mutex_init(&registry->queue, NULL);
	registry->wake = -1;
	registry->started_unix_ns = clock_unix_ns();
	registry->pid_namespace = stat("/proc/self/ns/pid", &is) ? 0 : is.st_ino;
	state_init(&registry->state);
	registry->state.observe = registry_observe;
	registry->state.context = registry;
	registry->audit = (struct audit){.users = &registry->state.users,
					 .store = &registry->state.store,
					 .due = &registry->due};
	changes_init(&registry->changes);
	indexer_init(&registry->index);
	registry->events.registry = registry->started_unix_ns;
	registry->state.generation = (uint64_t)clock_read_ns(CLOCK_BOOTTIME) / 1000;
	registry->state.since = registry->state.generation;
	set_time(registry);
	return registry;
}

/* Lock a mutex. Most requests hold the registry's lock for a few microseconds, so spin for a while
 * before sleeping. */
static void lock_soon(pthread_mutex_t *mutex)
{
	int64_t until_ns;

	if (!pthread_mutex_trylock(mutex))
		return;
	until_ns = clock_ns() + SPIN_NS;
	while (clock_ns() < until_ns) {
		if (!pthread_mutex_trylock(mutex))
			return;
	}
	pthread_mutex_lock(mutex);
}

/* If a thread unlocks a mutex and locks it again at once, it usually gets the mutex before a thread
 * that waits. `queue` prevents that: only the thread that holds `queue` may wait for `lock`. */
void registry_lock(struct registry *registry)
{
	lock_soon(&registry->queue);
	lock_soon(&registry->lock);
	pthread_mutex_unlock(&registry->queue);
	set_time(registry);
	registry->due |= registry->rests;
	registry->rests = false;
}

void registry_unlock(struct registry *registry)
{
	int64_t held_ns = clock_ns() - registry->locked_ns;
	bool wakes = registry->due && registry->wake >= 0;

	registry->due = false;
	if (held_ns > registry->held_most_ns)
		registry->held_most_ns = held_ns;
	pthread_mutex_unlock(&registry->lock);
	if (wakes)
		eventfd_write(registry->wake, 1);
}

void registry_release(struct registry *registry, struct fdref *fdref)
{
	if (registry->fdstore)
		fdstore_release(registry->fdstore, fdref);
	else
		fdref_release(&registry->state.users, fdref);
}

struct session *registry_connect(struct registry *registry, uint32_t id, const struct process *peer)
{
	struct user *user = user_of(&registry->state.users, peer->uid);
	struct session *session =
	    user ? session_new(&registry->state.sessions, id, peer, user) : NULL;

	if (session && getrandom(session->key, sizeof(session->key), GRND_NONBLOCK) !=
			   (ssize_t)sizeof(session->key))
		memset(session->key, 0, sizeof(session->key)); /* this session can't be resumed */
	return session;
}

void registry_end(struct registry *registry, int64_t until_ns)
{
	struct piece piece = {.until_ns = until_ns};
	struct session *session;

	while ((session = registry->state.ending) && !piece_is_over(&piece)) {
		if (state_end_one(&registry->state, session))
			continue;
		log_line("end: uid %u pid %d (%s), %u names withdrawn, %u kept, %u attachments "
			 "released",
			 session->peer.uid, session->peer.pid, session->peer.command,
			 session->ended.names, session->ended.kept, session->ended.attachments);
		DL_DELETE(registry->state.ending, session);
		session_free(&registry->state.sessions, session);
	}
	if (session && session->next) { /* next time, continue with another session */
		DL_DELETE(registry->state.ending, session);
		DL_APPEND(registry->state.ending, session);
	}
	save_flush(registry);
}

int64_t registry_expire(struct registry *registry, int64_t now_ns)
{
	struct piece piece = piece_begin();
	struct entry *entry;
	int64_t next;

	while ((entry = buffer_next_kept(&registry->state, NULL)) && entry->deadline_ns <= now_ns &&
	       !piece_is_over(&piece))
		buffer_remove(&registry->state, entry, DEPARTURE_EXPIRED);
	save_flush(registry);
	next = entry ? entry->deadline_ns : INT64_MAX;
	return next <= now_ns ? clock_ns() + PIECE_NS : next;
}

void registry_describe(const struct registry *registry, const struct session *session,
		       const struct entry *entry, record *out_info)
{
	entry_describe(entry, out_info);
	order_describe(registry, entry, out_info);
	/* This is not for secrecy: an address of cudaMalloc means nothing in other processes. */
	if (!backing_is_fd(entry->info.backing) &&
	    !(session && process_is_same(&session->peer, entry_owner(entry))))
		out_info->address = 0;
	if (entry->deadline_ns != INT64_MAX) {
		int64_t left_ns = entry->deadline_ns - clock_ns();

		out_info->ttl_left_s =
		    left_ns > 0 ? (uint32_t)((left_ns + NS_PER_S - 1) / NS_PER_S) : 0;
	}
}

/* From here on: the effects of a change of the state on the other modules. */

/* The index leaves out staged buffers and, with --system, buffers that not everybody may read. It
 * also leaves out buffers with a stream-sync page, because clients publish there without the
 * registry, which could not update `sequence`. */
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
	PUT = 4,     /* put the descriptor into the fd store, before a record refers to it */
	RELEASE = 8, /* release the descriptor */
	MARK = 16,   /* count in the changes page: the name may have another buffer */
	SHOW = 32,   /* put the record into the index */
	HIDE = 64,
	DEPART = 128, /* write an audit line and a notice, which both say why: departures[] */
};

/*
 * The effects of each change of a buffer, in the order in which they happen: `what`, starting with
 * what survives the daemon, then `notice`, then `order`. `order` comes last because it may free the
 * order, whose numbers the notice has. A notice has the pid of the change's session, or if there is
 * none, the owner's.
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

/* Make a notice with the public data of `entry`, which may be NULL. NULL: no notice is made. */
static notice *notify(struct registry *registry, enum gpushare_notice_kind kind,
		      const struct entry *entry, int32_t pid)
{
	notice *notice;

	/* While the registry leaves, connections end although their processes live, so nobody must
	 * be notified. */
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

	/* Only an unlink is what the peer asked for. In other cases, its request may just have made
	 * the registry notice that the owner has ended. */
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
		/* The buffer's owner is unknown, so only the attacher's own user gets this
		 * notice. */
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
		/* Drop the session's record first: if the registry is killed now, its successor
		 * must not restore the session, whose process may still live. */
		records_drop(registry->records, &change->session->record_slot);
		events_leave(&registry->events, change->session);
		order_end_session(registry, change->session);
		break;
	default:
		observe_buffer(registry, change);
	}
	/* the main loop has a new deadline of a kept buffer, or notices to send */
	registry->due |= change->kind == CHANGE_ORPHAN || registry->events.news > news;
}

static void notify_rate(struct registry *registry, struct order *order, int64_t elapsed_ns)
{
	uint64_t published = order->page ? order_published(order->page) : order->rated;
	uint64_t more = published - order->rated;
	bool rises = published > order->rated;
	const struct entry *entry = NULL;
	notice *notice;

	order->rated = published;
	/* most pages have no new publication: test this first, because it is cheap */
	if (rises && elapsed_ns)
		entry = store_find_generation(&registry->state.store, order->generation);
	if (!entry ||
	    !(notice = notify(registry, GPUSHARE_NOTICE_PUBLISH, entry, entry_owner(entry)->pid)))
		return;
	notice->published = published;
	/* rounded, but at least 1: this buffer was published */
	notice->rate = (more * NS_PER_S + (uint64_t)elapsed_ns / 2) / (uint64_t)elapsed_ns;
	notice->rate += !notice->rate;
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
