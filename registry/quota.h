/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_QUOTA_H
#define GPUSHARE_REGISTRY_QUOTA_H
/* Whether a user may have more, with the sentence that says why not; what was asked for, counted. */
#include "registry.h"

/* A socket more of that user's. NULL: it has too many, which is counted, or out of memory. */
struct user *user_opens(struct registry *registry, uint32_t uid);
/* A request of its has begun: one more, or, where it is begun anew, none; it has its answer. */
void user_asks(struct registry *registry, struct user *user, int more);
void user_answered(struct registry *registry, struct user *user, pb_size_t verb, int status);

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
