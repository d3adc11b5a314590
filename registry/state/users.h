/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_USERS_H
#define GPUSHARE_REGISTRY_USERS_H
/*
 * What each user has of what is limited. One who has come is remembered as long as the daemon lives, so
 * that going and coming back is no way around a rate. Everything under the registry's lock.
 */
#include "counts.h"
#include "os/hash.h"
#include "limit.h"
#include "protocol.h"

struct closer;
struct entry;

struct user {
	uint32_t uid;
	struct users *all;
	uint64_t held[LIMIT_KINDS];
	struct counts counts; /* of its requests alone */
	/* observe/audit.c: up to when it has used its lines, and how many it did not get */
	int64_t lines_ns;
	uint64_t left_out;
	uint64_t
	    sockets;   /* connections, of those who have said nothing so far, too, and watchers */
	size_t unread; /* bytes of answers that its connections have not read */
	/* ask.c: parked lists, and the time up to which earlier lists have used this user's half of the lock */
	unsigned int list_count;
	int64_t lists_ns;
	struct closer *closer; /* of what fds.sock refuses it; NULL: nothing so far */
	UT_hash_handle hh;
};

struct users {
	struct user *by_uid;
	uint64_t held[LIMIT_KINDS]; /* all of them together */
};

void users_finish(struct users *users);
/* NULL: out of memory. */
struct user *user_of(struct users *users, uint32_t uid);
void user_add(struct user *user, enum limit what, uint64_t more);
void user_take(struct user *user, enum limit what, uint64_t fewer);

/* A socket less of that user's: see user_opens(). */
void user_closes(struct user *user);

/* A record is that user's, as a name or without one, with its tags; it was another's, perhaps, with what
 * it keeps. */
void user_enter(struct user *user, struct entry *entry, enum limit counted)
    __attribute__((nonnull));
/* It is nobody's: it goes. */
void user_leave(struct entry *entry);

#endif
