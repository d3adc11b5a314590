/* SPDX-License-Identifier: MIT */
#include "state/users.h"

#include <stdlib.h>

#include "os/closer.h"

#define X(name, value, text) _Static_assert((value) < COUNTS_BACKINGS, "each has a place");
GPUSHARE_BACKINGS(X)
#undef X
#define X(name, value, text) _Static_assert(-(value) < COUNTS_STATUSES, "each has a place");
GPUSHARE_STATUSES(X)
#undef X

const struct limit_text limit_texts[] = {
#define X(key, all, user, what, helps) {what, helps},
    LIMITS(X)
#undef X
};

const char *const limit_keys[] = {
#define X(key, ...) [LIMIT_##key] = #key, [LIMIT_KINDS + LIMIT_##key] = "user_" #key,
    LIMITS(X)
#undef X
	[2 * LIMIT_KINDS] = "message_bytes",
};

void limits_init(struct limits *limits)
{
#define X(key, all, user, what, helps) \
	limits->of_all[LIMIT_##key] = UINT64_C(all); \
	limits->of_user[LIMIT_##key] = UINT64_C(user);
	LIMITS(X)
#undef X
	limits->message_bytes = GPUSHARE_MESSAGE_MAX;
	limits->together = UINT64_MAX;
	limits->spare = LIMIT_CONNECTIONS_SPARE;
}

struct user *user_of(struct users *users, uint32_t uid)
{
	struct user *user;

	HASH_FIND(hh, users->by_uid, &uid, sizeof(uid), user);
	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	user->all = users;
	user->nobody.uid = uid;
	HASH_ADD(hh, users->by_uid, uid, sizeof(user->uid), user);
	if (user->hh.tbl)
		return user;
	free(user);
	return NULL;
}

bool user_opens(struct user *user)
{
	struct users *all = user->all;
	const struct limits *limits = &all->limits;

	/* Admit some more sockets than the limit allows: these get an error message instead of a
	 * closed socket. */
	if (user->sockets >= limits->of_user[LIMIT_connections] + 2 * limits->spare ||
	    all->sockets >= limits->of_all[LIMIT_connections] + 2 * limits->spare ||
	    all->sockets + all->fds >= limits->together)
		return false;
	user->sockets++;
	all->sockets++;
	return true;
}

bool user_is_crowded(const struct user *user)
{
	const struct users *all = user->all;
	uint64_t spare = all->limits.spare;

	return user->sockets > user->own.held[LIMIT_connections] + spare ||
	       all->sockets > all->limits.of_all[LIMIT_connections] + spare ||
	       all->sockets + all->fds + spare > all->limits.together;
}

void user_closes(struct user *user)
{
	user->sockets--;
	user->all->sockets--;
}

void user_add(struct user *user, enum limit what, uint64_t more)
{
	user->own.held[what] += more;
	user->all->total.held[what] += more;
}

void user_take(struct user *user, enum limit what, uint64_t fewer)
{
	user_add(user, what, -fewer);
}

void user_answered(struct user *user, pb_size_t verb, int status)
{
	user_count(user, verbs[verb]);
	if (status < 0)
		user_count(user, statuses[-status]);
}

static bool is_over(uint64_t held, uint64_t more, uint64_t limit)
{
	return more > limit || held > limit - more;
}

unsigned int user_reached(const struct user *user, enum limit what, uint64_t more)
{
	const struct users *all = user->all;

	if (is_over(user->own.held[what], more, all->limits.of_user[what]))
		return 1 + LIMIT_KINDS + what;
	return is_over(all->total.held[what], more, all->limits.of_all[what]) ? 1 + what : 0;
}

/* `times` is 1 to add; -1, as an unsigned number, to subtract. */
static void charge(struct account *account, const struct entry *entry, uint64_t times)
{
	const struct known *info = &entry->info;
	bool shown = entry->info.nameless ? info->deferred : !entry_is_staged(info->flags);
	struct buffers *buffers = (entry->info.nameless ? account->deferred : account->named) +
				  info->backing % COUNTS_BACKINGS;

	account->held[entry->info.nameless ? LIMIT_deferred : LIMIT_names] += times;
	account->held[LIMIT_tags] += times * entry->info.tags_count;
	account->held[LIMIT_kept_bytes] += times * entry_kept_bytes(entry);
	buffers->count += shown ? times : 0;
	buffers->bytes += shown ? times * held_bytes(info->size, info->base_size) : 0;
}

void user_charge(struct user *user, struct entry *entry)
{
	entry->user = user;
	charge(&user->own, entry, 1);
	charge(&user->all->total, entry, 1);
}

struct user *user_uncharge(struct entry *entry)
{
	struct user *user = entry->user;

	if (user) {
		charge(&user->own, entry, UINT64_MAX);
		charge(&user->all->total, entry, UINT64_MAX);
	}
	entry->user = NULL;
	return user;
}

struct fdref *fdref_new(struct users *users, struct user *user, int fd)
{
	struct fdref *fdref = malloc(sizeof(*fdref));

	if (!fdref)
		return NULL;
	*fdref = (struct fdref){.fd = fd, .references = 1};
	users->fds++;
	if (user)
		fdref_charge(fdref, user);
	return fdref;
}

void fdref_charge(struct fdref *fdref, struct user *user)
{
	if (fdref->user)
		return;
	fdref->user = user;
	user_add(user, LIMIT_descriptors, 1);
}

void fdref_release(struct users *users, struct fdref *fdref)
{
	if (--fdref->references)
		return;
	users->fds--;
	if (fdref->user)
		user_take(fdref->user, LIMIT_descriptors, 1);
	closer_add(NULL, fdref->fd);
	free(fdref);
}
