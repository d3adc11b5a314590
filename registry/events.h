/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_H
#define GPUSHARE_REGISTRY_EVENTS_H
/*
 * What happens to buffers, for those who watch. It is written down under the registry's lock and
 * waits for events_server.c to send it; with nobody watching only its number is counted. Knows
 * nothing of nng. All want the lock held.
 */
#include "hash.h"
#include "limit.h"
#include "protocol.h"
#include "tombstone.h"

struct attachment;
struct entry;
struct lease;
struct registry;

/* Whoever has it in hand is a user; the thread that sends is alone with it. */
struct event {
	unsigned int users;
	uint64_t serial;
	bool is_about; /* a buffer, with these: else it is for all */
	uint32_t uid, gid, mode;
	size_t size;
	uint8_t bytes[]; /* an encoded Notice */
};

struct watcher {
	uint32_t id;
	struct user *user;
	UT_hash_handle hh;
};

/*
 * Once a second while somebody watches: whoever knows what was published says so by
 * events_published(). `elapsed_ns` since the call before; 0: the first one since somebody watches, from
 * which to count.
 */
typedef void events_tick(struct registry *registry, int64_t elapsed_ns);

struct events {
	struct watcher *watchers;
	uint64_t serial; /* of the latest, told or not */
	int wake;	 /* eventfd: something waits to be sent; -1: nobody sends */
	int32_t actor;	 /* pid of the peer whose request is carried out; 0: none */
	events_tick *tick;
	int64_t ticked_ns; /* 0: not since somebody watches */
	int64_t left_ns;   /* when the last one went; 0: never */
	struct event *waiting[LIMIT_EVENTS];
	unsigned int first, count; /* of those */
	notice notice;		   /* room to make one in */
	uint8_t wire[gpushare_Notice_size];
};

void events_init(struct events *events);
void events_finish(struct events *events);

/* A watcher comes, and goes. false: too many, out of memory, or this registry leaves. */
bool events_enter(struct registry *registry, uint32_t id, uint32_t uid);
void events_leave(struct registry *registry, uint32_t id);
/* It is connected: say so, with the latest serial, from which on it misses nothing unknowingly. */
void events_welcome(struct registry *registry, uint32_t id);

void events_tell(struct registry *registry, enum gpushare_notice_kind kind,
		 const struct entry *entry, int32_t pid);
/* It leaves the store for that reason. */
void events_tell_departure(struct registry *registry, const struct entry *entry,
			   enum departure how);
/* ATTACH, DETACH; `entry` is NULL where what was attached has gone. */
void events_tell_attachment(struct registry *registry, enum gpushare_notice_kind kind,
			    const struct lease *lease, const struct attachment *attachment,
			    const struct entry *entry);
/* From a tick: the latest sequence, and how many a second. */
void events_published(struct registry *registry, const struct entry *entry, uint64_t published,
		      uint64_t rate);
/* Carry out what is due; when the next tick is, INT64_MAX: nobody watches, or nobody asked for it. */
int64_t events_due(struct registry *registry, int64_t now_ns);

/* The oldest that waits, the caller's to release; NULL: none. */
struct event *events_take(struct registry *registry);
void event_release(struct event *event);

#endif
