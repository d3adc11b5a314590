/* SPDX-License-Identifier: MIT */
#include "tally.h"

#include <stdlib.h>
#include <string.h>

#include "access.h"

#define X(name, value, text) _Static_assert((value) < TALLY_BACKINGS, "each has a place");
GPUSHARE_BACKINGS(X)
#undef X

static struct tally_key key_of(const struct entry *entry)
{
	unsigned int mode = entry->info.mode;

	return (struct tally_key){
	    .uid = entry->info.owner_uid,
	    .gid = entry->info.owner_gid,
	    .group = (mode & 060) != 0,
	    .others = (mode & 06) != 0,
	    .limbo = entry->nameless,
	};
}

static struct tally *find(struct tally **all, const struct tally_key *key)
{
	struct tally *found;

	HASH_FIND(hh, *all, key, sizeof(*key), found);
	if (found)
		return found;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->key = *key;
	found->all = all;
	HASH_ADD(hh, *all, key, sizeof(found->key), found);
	if (found->hh.tbl)
		return found;
	free(found);
	return NULL;
}

void tally_drop(struct entry *entry)
{
	struct tally *tally = entry->tally;
	struct tally_sum *sum;

	if (!tally)
		return;
	sum = &tally->by_backing[entry->tallied_backing];
	sum->count--;
	sum->bytes -= entry->tallied_bytes;
	entry->tally = NULL;
	if (--tally->count)
		return;
	HASH_DEL(*tally->all, tally);
	free(tally);
}

void tally_put(struct tally **all, struct entry *entry)
{
	struct tally_key key = key_of(entry);
	struct tally_sum *sum;

	tally_drop(entry);
	if (entry->nameless ? !entry->info.in_limbo : entry_is_staged(entry->info.flags))
		return;
	entry->tally = find(all, &key);
	if (!entry->tally)
		return;
	entry->tallied_backing = entry->info.backing % TALLY_BACKINGS;
	entry->tallied_bytes = entry->info.base_size;
	sum = &entry->tally->by_backing[entry->tallied_backing];
	entry->tally->count++;
	sum->count++;
	sum->bytes += entry->tallied_bytes;
}

void tally_sums(const struct tally *all, const struct session *session, bool limbo,
		struct tally_sum out_sums[TALLY_BACKINGS])
{
	memset(out_sums, 0, TALLY_BACKINGS * sizeof(*out_sums));
	for (const struct tally *tally = all; tally; tally = tally->hh.next) {
		unsigned int mode = (tally->key.group ? 040 : 0) | (tally->key.others ? 04 : 0);

		if (tally->key.limbo != limbo ||
		    !(access_grants(tally->key.uid, tally->key.gid, mode, &session->who) &
		      ACCESS_SEE))
			continue;
		for (int i = 0; i < TALLY_BACKINGS; i++) {
			out_sums[i].count += tally->by_backing[i].count;
			out_sums[i].bytes += tally->by_backing[i].bytes;
		}
	}
}
