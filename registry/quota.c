/* SPDX-License-Identifier: MIT */
#include "quota.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "explain.h"
#include "os/piece.h"

#define END_TRIES 8

static const struct {
	const char *key, *what, *helps;
	uint64_t of_all, of_user;
} kinds[] = {
#define X(key, all, user, what, helps) {#key, what, helps, UINT64_C(all), UINT64_C(user)},
    LIMITS(X)
#undef X
};

void limits_init(struct limits *limits)
{
	for (int what = 0; what < LIMIT_KINDS; what++) {
		limits->of_all[what] = kinds[what].of_all;
		limits->of_user[what] = kinds[what].of_user;
	}
	limits->message_bytes = GPUSHARE_MESSAGE_MAX;
	limits->together = UINT64_MAX;
	limits->spare = LIMIT_CONNECTIONS_SPARE;
}

/* Whatever may connect, and some to hear that they may not. */
static uint64_t sockets_most(const struct limits *limits)
{
	return limits->of_user[LIMIT_connections] + 2 * limits->spare;
}

struct user *user_opens(struct registry *registry, uint32_t uid)
{
	struct user *user = user_of(&registry->users, uid);

	if (!user)
		return NULL;
	if (user->sockets >= sockets_most(&registry->limits)) {
		registry->counts.drops[DROP_crowd]++;
		return NULL;
	}
	user->sockets++;
	return user;
}

void user_asks(struct registry *registry, struct user *user, int more)
{
	registry->counts.requests += (uint64_t)more;
	user->counts.requests += (uint64_t)more;
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

/* Bytes are many at once: how many they would be, and what there are; but not of what others have. */
static int explain_bytes(reply *answer, enum limit what, uint64_t more, const uint64_t *held,
			 uint64_t limit, const char *key)
{
	if (!held)
		return explain(answer, GPUSHARE_E_LIMIT,
			       "it would keep %" PRIu64 " bytes more, which is over the %" PRIu64
			       " of all users together (%s in registry.conf); %s",
			       more, limit, key, kinds[what].helps);
	return explain(answer, GPUSHARE_E_LIMIT,
		       "it would keep %" PRIu64 " bytes more, where %" PRIu64 " of %" PRIu64
		       " are kept already (%s in registry.conf); %s",
		       more, *held, limit, key, kinds[what].helps);
}

static bool may_know_sums(const struct registry *registry, const struct user *user)
{
	return !registry->is_system || !user->uid || user->uid == geteuid();
}

enum excess { WITHIN, OVER_OWN, OVER_ALL };

static enum excess excess_of(const struct registry *registry, const struct user *user,
			     enum limit what, uint64_t more)
{
	if (is_over(user->held[what], more, registry->limits.of_user[what]))
		return OVER_OWN;
	return is_over(registry->users.held[what], more, registry->limits.of_all[what]) ? OVER_ALL
											: WITHIN;
}

/* Names of owners that are ending make room first. Kept ones don't: few are tried. */
static enum excess check_excess(struct registry *registry, const struct user *user, enum limit what,
				uint64_t more)
{
	enum excess excess = excess_of(registry, user, what, more);

	for (int tries = 0; excess && what == LIMIT_names && tries < END_TRIES; tries++) {
		if (!state_end_some(&registry->state, excess == OVER_OWN ? user : NULL,
				    PIECE_LEAST))
			break;
		excess = excess_of(registry, user, what, more);
	}
	return excess;
}

int limit_check(struct registry *registry, struct user *user, enum limit what, uint64_t more,
		reply *answer)
{
	enum excess excess = check_excess(registry, user, what, more);
	bool own = excess == OVER_OWN, all = excess == OVER_ALL;
	const uint64_t *sum = may_know_sums(registry, user) ? &registry->users.held[what] : NULL;
	uint64_t limit = all ? registry->limits.of_all[what] : registry->limits.of_user[what];
	char key[LIMIT_KEY_MAX + 1];
	unsigned int index = own ? LIMIT_KINDS + what : what;

	if (!excess)
		return GPUSHARE_OK;
	limit_count(registry, user, index);
	if (!answer)
		return GPUSHARE_E_LIMIT;
	limit_key(index, key);
	if (what == LIMIT_kept_bytes)
		return explain_bytes(answer, what, more, all ? sum : &user->held[what], limit, key);
	return explain(answer, GPUSHARE_E_LIMIT,
		       "%" PRIu64 " %s, which is all that this registry takes%s (%s in "
		       "registry.conf); %s",
		       limit, kinds[what].what, own ? " of one user" : "", key, kinds[what].helps);
}

int limit_check_tags(struct registry *registry, struct user *user, const struct entry *instead,
		     pb_size_t count, reply *answer)
{
	pb_size_t had = instead && instead->user == user ? instead->tags_count : 0;

	if (count <= had)
		return GPUSHARE_OK;
	return limit_check(registry, user, LIMIT_tags, count - had, answer);
}

void limit_key(unsigned int index, char out_key[LIMIT_KEY_MAX + 1])
{
	if (index == 2 * LIMIT_KINDS)
		snprintf(out_key, LIMIT_KEY_MAX + 1, "message_bytes");
	else
		snprintf(out_key, LIMIT_KEY_MAX + 1, "%s%s", index < LIMIT_KINDS ? "" : "user_",
			 kinds[index % LIMIT_KINDS].key);
}
