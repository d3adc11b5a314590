/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_TALLY_H
#define GPUSHARE_REGISTRY_TALLY_H
/*
 * How many buffers there are, and of how many bytes, for those who may see them: kept up to date, so that
 * Stat looks at no buffer. Buffers with the same answer to "who sees it?" are counted together. What is
 * staged, or unlinked, is not counted. Everything under the registry's lock.
 */
#include <stdbool.h>
#include <stdint.h>

#include "os/hash.h"
#include "protocol.h"

struct entry;
struct session;

#define TALLY_BACKINGS 16

struct tally_sum {
	uint64_t count, bytes;
};

/* Who sees it: the owner's user; that group, or all others, where they are let in. */
struct tally_key {
	uint32_t uid, gid;
	uint8_t group, others;
	uint8_t limbo, zero;
};

struct tally {
	struct tally_key key;
	uint64_t count;
	struct tally_sum by_backing[TALLY_BACKINGS];
	struct tally **all; /* the table that it stands in */
	UT_hash_handle hh;
};

/* It is counted as what it is now. */
void tally_put(struct tally **all, struct entry *entry);
/* It is counted no more. */
void tally_drop(struct entry *entry);
/* What `session` may see, by backing; in limbo, or with a name. */
void tally_sums(const struct tally *all, const struct session *session, bool limbo,
		struct tally_sum out_sums[TALLY_BACKINGS]);

#endif
