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
struct registry;
struct ask;

struct user {
	uint32_t uid;
	struct users *all;
	uint64_t held[LIMIT_KINDS];
	struct counts counts; /* of its requests alone */
	/* audit.c: up to when it has used its lines, and how many it did not get */
	int64_t lines_ns;
	uint64_t left_out;
	uint64_t
	    sockets;   /* connections, of those who have said nothing so far, too, and watchers */
	size_t unread; /* bytes of answers that its connections have not read */
	/* ask.c: lists that wait for their turn, their number, and the time up to which earlier
	 * lists have used this user's half of the lock */
	struct ask *lists;
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

/* A socket more of that user's. NULL: it has too many, which is counted, or out of memory. */
struct user *user_opens(struct registry *registry, uint32_t uid);
void user_closes(struct user *user);

/* A request of its has begun: one more, or, where it is begun anew, none; it has its answer. */
void user_asks(struct registry *registry, struct user *user, int more);
void user_answered(struct registry *registry, struct user *user, pb_size_t verb, int status);

/* A record is that user's, as a name or without one, with its tags; it was another's, perhaps, with what
 * it keeps. */
void user_enter(struct user *user, struct entry *entry, enum limit counted)
    __attribute__((nonnull));
/* It is nobody's: it goes. */
void user_leave(struct entry *entry);

/*
 * Whether the user may have `more` of that. OK, or E_LIMIT, counted, and a sentence that names the key;
 * `answer` may be NULL.
 */
int limit_check(struct registry *registry, struct user *user, enum limit what, uint64_t more,
		reply *answer);
/* Whether a record of that user's may have so many tags: a new one (NULL), or one that has some. */
int limit_check_tags(struct registry *registry, struct user *user, const struct entry *instead,
		     pb_size_t count, reply *answer);
/* It was reached: count number `index`. */
void limit_count(struct registry *registry, struct user *user, unsigned int index);
/* The key of count number `index` (counts.h), as in registry.conf. */
void limit_key(unsigned int index, char out_key[LIMIT_KEY_MAX + 1]);
/* What all and each may have of everything, where nobody says another. */
void limits_init(struct limits *limits);

#endif
