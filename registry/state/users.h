/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_USERS_H
#define GPUSHARE_REGISTRY_USERS_H
/*
 * Counters for each user and for all users together: what they have of each limited thing, and how
 * many requests were made and refused. A user's counters stay until the daemon ends, so that
 * reconnecting doesn't reset a rate.
 */
#include "os/hash.h"
#include "protocol.h"
#include "state/entry.h"
#include "state/limit.h"

struct closer;
struct connection;

#define COUNTS_VERBS 32 /* above every gpushare_Request_*_tag; the first counts unknown ones */
#define COUNTS_STATUSES 32
#define COUNTS_LIMITS (2 * LIMIT_KINDS + 1) /* limits of all, of one user, and message_bytes */
#define COUNTS_BACKINGS 16

/* X(name, why): connections that were closed or refused */
#define DROPS(X) \
	X(stranger, "a user that this registry does not serve") \
	X(crowd, "beyond the limit of connections and its spare ones") \
	X(silent, "no Hello in time") \
	X(half, "a message that was not finished in time") \
	X(deaf, "answers that were not read in time")

enum drop {
#define X(name, why) DROP_##name,
	DROPS(X)
#undef X
	    DROP_KINDS,
};

/* X(name, what): audit lines */
#define AUDITED(X) \
	X(written, "lines that were written") \
	X(left_out, "lines that were left out, because there were too many") \
	X(lost, "lines that could not be written")

enum audited {
#define X(name, what) AUDITED_##name,
	AUDITED(X)
#undef X
	    AUDITED_KINDS,
};

/* Counters of one user, or of all together. Drops, audit lines and `hidden` are only counted for
 * all. */
struct account {
	uint64_t held[LIMIT_KINDS];
	struct buffers {
		uint64_t count, bytes;
	} named[COUNTS_BACKINGS], deferred[COUNTS_BACKINGS]; /* without staged and unlinked ones */
	uint64_t requests; /* including those that wait for their answer */
	uint64_t verbs[COUNTS_VERBS];
	uint64_t statuses[COUNTS_STATUSES];
	uint64_t limits[COUNTS_LIMITS];
	uint64_t drops[DROP_KINDS];
	_Atomic uint64_t audited[AUDITED_KINDS]; /* the main loop counts without the lock */
	uint64_t hidden; /* requests about buffers that the peer may not see */
};

struct user {
	uint32_t uid;
	struct users *all;
	struct account own;
	struct process nobody; /* owner of buffers whose owner is unknown */
	/* observe/audit.c: the time up to which the user's audit lines are used up, and how many
	 * lines were left out */
	int64_t lines_ns;
	uint64_t left_out;
	uint64_t sockets; /* its connections to either socket, also those without a session */
	/* server/connection.c: connections that wait for a turn */
	struct connection *todo;
	bool looks_up_group;	    /* one of its connections looks up a group */
	struct connection *delayed; /* connections that wait to look up a group */
	struct user *prev, *next;
	struct closer *closer; /* closes descriptors that fds.sock refused; NULL: none so far */
	UT_hash_handle hh;
};

struct users {
	struct user *by_uid;
	struct account total;
	struct limits limits;
	uint64_t sockets;
	uint64_t fds; /* descriptors that are held: struct fdref */
};

/* For each limit, two texts for the error message: the words after the number, and the remedy. */
extern const struct limit_text {
	const char *what, *helps;
} limit_texts[LIMIT_KINDS];
/* The keys in registry.conf, by their index in account.limits. */
extern const char *const limit_keys[COUNTS_LIMITS];

void limits_init(struct limits *limits);

/* NULL: out of memory. */
struct user *user_of(struct users *users, uint32_t uid);
/* Count one more socket of that user, or one less. false: too many; it is not counted. */
bool user_opens(struct user *user);
void user_closes(struct user *user);
/* Whether the user has more than limits.spare sockets without a session, or all users together have
 * nearly as many sockets or descriptors as they may have. */
bool user_is_crowded(const struct user *user);
void user_add(struct user *user, enum limit what, uint64_t more);
void user_take(struct user *user, enum limit what, uint64_t fewer);
/* Counts for the user and in the total. */
#define user_count(user, what) ((user)->own.what++, (user)->all->total.what++)
void user_answered(struct user *user, pb_size_t verb, int status);
/* Returns 0 if the user may have `more` of that. Otherwise 1 + the index in account.limits of
 * the limit that forbids it: above LIMIT_KINDS it is the limit of one user. */
unsigned int user_reached(const struct user *user, enum limit what, uint64_t more);

/* Charge a user for an entry: its name or deferred free, its tags and its kept bytes, also while
 * it has no owner. Uncharge the entry before any of these change. */
void user_charge(struct user *user, struct entry *entry);
/* Undo user_charge(). Returns the user that was charged; NULL: none. */
struct user *user_uncharge(struct entry *entry);

/*
 * A reference-counted file descriptor that the registry holds for a buffer, a stream-sync page or
 * the current request. The registry never accesses a buffer through it. After the last reference is
 * released, another thread closes the descriptor, because a driver's close() may take long.
 */
struct fdref {
	int fd;
	unsigned int references; /* also one for each entry: a buffer and its parts */
	uint64_t stored;	 /* its number in the fd store; 0: it isn't there */
	struct user *user;	 /* who is charged for it; NULL: nobody */
	/* fdstore/fdstore.c: the list of those in the store; `sent`: the service manager or keeper
	 * has it */
	struct fdref *prev, *next;
	bool sent;
};

/* The caller owns the reference. NULL: out of memory, and the caller still owns `fd`. */
struct fdref *fdref_new(struct users *users, struct user *user, int fd);
/* If nobody is charged for the descriptor, charge the user. */
void fdref_charge(struct fdref *fdref, struct user *user);
/* Adds a reference. */
static inline struct fdref *fdref_again(struct fdref *fdref)
{
	fdref->references++;
	return fdref;
}
void fdref_release(struct users *users, struct fdref *fdref);

#endif
