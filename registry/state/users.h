/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_USERS_H
#define GPUSHARE_REGISTRY_USERS_H
/*
 * Who has how much of what is limited, and what was asked and refused: of each user, and of all together. A user
 * is remembered until the daemon ends, so that reconnecting doesn't reset a rate.
 */
#include "os/hash.h"
#include "protocol.h"
#include "state/entry.h"
#include "state/limit.h"

struct closer;
struct connection;

#define COUNTS_VERBS 32 /* above every gpushare_Request_*_tag; the first counts unknown ones */
#define COUNTS_STATUSES 32
#define COUNTS_LIMITS (2 * LIMIT_KINDS + 1) /* of all, of one user, and of a message */
#define COUNTS_BACKINGS 16

/* X(name, why): connections that were closed or refused */
#define DROPS(X) \
	X(stranger, "not a user whom this registry serves") \
	X(crowd, "more connections than the limit, and some to hear of it") \
	X(silent, "a connection that did not say hello in time") \
	X(half, "a message that was begun and not ended in time") \
	X(deaf, "a peer that did not read what it was sent in time")

enum drop {
#define X(name, why) DROP_##name,
	DROPS(X)
#undef X
	    DROP_KINDS,
};

/* X(name, what) */
#define AUDITED(X) \
	X(written, "lines that were written") \
	X(left_out, "lines that were left out, as there were too many") \
	X(lost, "lines that could not be written")

enum audited {
#define X(name, what) AUDITED_##name,
	AUDITED(X)
#undef X
	    AUDITED_KINDS,
};

/* Of one user, or of all together; drops and audit lines are only counted for all. */
struct account {
	uint64_t held[LIMIT_KINDS];
	struct buffers {
		uint64_t count, bytes;
	} named[COUNTS_BACKINGS], deferred[COUNTS_BACKINGS]; /* without staged and unlinked ones */
	uint64_t requests; /* with those that wait for their answer */
	uint64_t verbs[COUNTS_VERBS];
	uint64_t statuses[COUNTS_STATUSES];
	uint64_t limits[COUNTS_LIMITS];
	uint64_t drops[DROP_KINDS];
	uint64_t audited[AUDITED_KINDS];
	uint64_t hidden; /* requests about buffers that the peer may not see */
};

struct user {
	uint32_t uid;
	struct users *all;
	struct account own;
	struct owner nobody; /* a process of this user, of which nothing is known */
	/* observe/audit.c: up to when its lines are used, and how many were left out */
	int64_t lines_ns;
	uint64_t left_out;
	uint64_t sockets; /* its connections to either socket, also those without a session */
	/* server/connection.c: connections that are to have a turn */
	struct connection *todo;
	bool looks_up_group; /* one of them does, and no other one may */
	struct user *prev, *next;
	/* ask.c: parked lists, and the time up to which earlier lists have used this user's half of the lock */
	unsigned int list_count;
	int64_t lists_ns;
	struct closer *closer; /* of what fds.sock refuses it; NULL: nothing so far */
	UT_hash_handle hh;
};

struct users {
	struct user *by_uid;
	struct account total;
	struct limits limits;
	uint64_t sockets;
	uint64_t fds;	       /* descriptors that are held: fdref.h */
	struct closer *closer; /* of those */
};

/* Of each limit its key, and for the sentence: so many what, and what helps; then the defaults. */
extern const struct limit_kind {
	const char *key, *what, *helps;
	uint64_t of_all, of_user;
} limit_kinds[LIMIT_KINDS];

/* Defaults. */
void limits_init(struct limits *limits);
/* The key in registry.conf of the limit with that index in account.limits. */
void limit_key(unsigned int index, char out_key[LIMIT_KEY_MAX + 1]);

/* There are as many connections and descriptors as the process may open. */
bool users_are_full(const struct users *users);

/* NULL: out of memory. */
struct user *user_of(struct users *users, uint32_t uid);
/* One more socket of that user, and one less. false: too many. */
bool user_opens(struct user *user);
void user_closes(struct user *user);
void user_add(struct user *user, enum limit what, uint64_t more);
void user_take(struct user *user, enum limit what, uint64_t fewer);
/* The user's and the total's. */
#define user_count(user, what) ((user)->own.what++, (user)->all->total.what++)
void user_refused(struct user *user, int status);
void user_answered(struct user *user, pb_size_t verb, int status);
/* 0: the user may have `more` of that. Else 1 + the index in account.limits of the limit that forbids it: above
 * LIMIT_KINDS it is the user's own. */
unsigned int user_reached(const struct user *user, enum limit what, uint64_t more);

/* What an entry has counts as its user's: its name or deferred free, tags, and kept bytes, also while it has no
 * owner. It has to be uncharged while any of these change. */
void user_charge(struct user *user, struct entry *entry);
/* The entry is nobody's; it may be already. */
void user_uncharge(struct entry *entry);

#endif
