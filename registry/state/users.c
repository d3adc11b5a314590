/* SPDX-License-Identifier: MIT */
#include "users.h"

#include <stdlib.h>

#include "os/closer.h"
#include "entry.h"

void users_finish(struct users *users)
{
	struct user *user, *after;

	HASH_ITER (hh, users->by_uid, user, after) {
		HASH_DEL(users->by_uid, user);
		closer_end(user->closer);
		free(user);
	}
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
	HASH_ADD(hh, users->by_uid, uid, sizeof(user->uid), user);
	if (user->hh.tbl)
		return user;
	free(user);
	return NULL;
}

void user_add(struct user *user, enum limit what, uint64_t more)
{
	user->held[what] += more;
	user->all->held[what] += more;
}

void user_take(struct user *user, enum limit what, uint64_t fewer)
{
	user->held[what] -= fewer;
	user->all->held[what] -= fewer;
}

void user_leave(struct entry *entry)
{
	if (!entry->user)
		return;
	user_take(entry->user, entry->counted, 1);
	user_take(entry->user, LIMIT_tags, entry->tags_count);
	entry->user = NULL;
}

void user_enter(struct user *user, struct entry *entry, enum limit counted)
{
	uint64_t kept = entry->user ? entry->kept_bytes : 0;

	if (entry->user == user && entry->counted == counted)
		return;
	if (kept)
		user_take(entry->user, LIMIT_kept_bytes, kept);
	user_leave(entry);
	entry->user = user;
	entry->counted = counted;
	user_add(user, counted, 1);
	user_add(user, LIMIT_tags, entry->tags_count);
	if (kept)
		user_add(user, LIMIT_kept_bytes, kept);
}

void user_closes(struct user *user)
{
	user->sockets--;
}
