/* SPDX-License-Identifier: MIT */
#include "quota.h"

#include <stdio.h>

#include "os/piece.h"

#define END_TRIES 8

const struct limit_kind limit_kinds[] = {
#define X(key, all, user, what, helps) {#key, what, helps, UINT64_C(all), UINT64_C(user)},
    LIMITS(X)
#undef X
};

void limits_init(struct limits *limits)
{
	for (int what = 0; what < LIMIT_KINDS; what++) {
		limits->of_all[what] = limit_kinds[what].of_all;
		limits->of_user[what] = limit_kinds[what].of_user;
	}
	limits->message_bytes = GPUSHARE_MESSAGE_MAX;
	limits->together = UINT64_MAX;
	limits->spare = LIMIT_CONNECTIONS_SPARE;
}

struct user *user_opens(struct registry *registry, uint32_t uid)
{
	const struct limits *limits = &registry->limits;
	struct user *user = user_of(&registry->state.users, uid);

	if (!user)
		return NULL;
	/* Some more than may connect, so that they hear that they may not. */
	if (user->sockets >= limits->of_user[LIMIT_connections] + 2 * limits->spare) {
		registry->counts.drops[DROP_crowd]++;
		return NULL;
	}
	user->sockets++;
	return user;
}

void user_answered(struct registry *registry, struct user *user, pb_size_t verb, int status)
{
	counts_answered(&registry->counts, verb, status);
	counts_answered(&user->counts, verb, status);
}

void limit_count(struct registry *registry, struct user *user, unsigned int index)
{
	registry->counts.limits[index]++;
	user->counts.limits[index]++;
}

static bool is_over(uint64_t held, uint64_t more, uint64_t limit)
{
	return more > limit || held > limit - more;
}

static unsigned int find_reached(const struct registry *registry, const struct user *user,
				 enum limit what, uint64_t more)
{
	if (is_over(user->held[what], more, registry->limits.of_user[what]))
		return 1 + LIMIT_KINDS + what;
	return is_over(registry->state.users.held[what], more, registry->limits.of_all[what])
		   ? 1 + what
		   : 0;
}

unsigned int limit_reached(struct registry *registry, struct user *user, enum limit what,
			   uint64_t more)
{
	unsigned int index = find_reached(registry, user, what, more);

	/* Names of ending sessions make room, but kept ones don't, so only a few are tried. */
	for (int tries = 0; index && what == LIMIT_names && tries < END_TRIES; tries++) {
		if (!state_end_some(&registry->state, index > LIMIT_KINDS ? user : NULL,
				    PIECE_LEAST))
			break;
		index = find_reached(registry, user, what, more);
	}
	if (index)
		limit_count(registry, user, index - 1);
	return index;
}

void limit_key(unsigned int index, char out_key[LIMIT_KEY_MAX + 1])
{
	if (index == 2 * LIMIT_KINDS)
		snprintf(out_key, LIMIT_KEY_MAX + 1, "message_bytes");
	else
		snprintf(out_key, LIMIT_KEY_MAX + 1, "%s%s", index < LIMIT_KINDS ? "" : "user_",
			 limit_kinds[index % LIMIT_KINDS].key);
}
