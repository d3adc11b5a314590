/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_QUOTA_H
#define GPUSHARE_REGISTRY_QUOTA_H
/* Whether a user may have more, and counts of what was refused. */
#include "registry.h"

/* Of each limit its key, and for the sentence: so many what, and what helps; then the defaults. */
extern const struct limit_kind {
	const char *key, *what, *helps;
	uint64_t of_all, of_user;
} limit_kinds[LIMIT_KINDS];

/* Defaults. */
void limits_init(struct limits *limits);
/* One more socket of that user. NULL: too many, which is counted, or out of memory. */
struct user *user_opens(struct registry *registry, uint32_t uid);
/* Count an answer. */
void user_answered(struct registry *registry, struct user *user, pb_size_t verb, int status);

/* 0: the user may have `more` of that. Else 1 + the index in counts.h of the limit that forbids it, which is
 * counted: above LIMIT_KINDS it is the user's own. Names of ending sessions are removed first. */
unsigned int limit_reached(struct registry *registry, struct user *user, enum limit what,
			   uint64_t more);
/* Count that the limit with that index was reached. */
void limit_count(struct registry *registry, struct user *user, unsigned int index);
/* The key in registry.conf of the limit with that index. */
void limit_key(unsigned int index, char out_key[LIMIT_KEY_MAX + 1]);

#endif
