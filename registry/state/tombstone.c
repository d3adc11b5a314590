/* SPDX-License-Identifier: MIT */
#include "state/tombstone.h"

#include <string.h>

#include "os/clock.h"
#include "state/entry.h"

void tombstone_add(struct tombstones *tombstones, const struct entry *entry, enum departure how,
		   int64_t now_ns)
{
	struct tombstone *tombstone = &tombstones->ring[tombstones->next];

	tombstones->next = (tombstones->next + 1) % LIMIT_TOMBSTONES;
	*tombstone = (struct tombstone){
	    .owner = *entry->owner,
	    .gid = entry->info.owner_gid,
	    .mode = entry->info.mode,
	    .staged = entry_is_staged(entry->info.flags),
	    .how = how,
	    .when_ns = now_ns,
	};
	strcpy(tombstone->name, entry->info.name);
}

const struct tombstone *tombstone_find(const struct tombstones *tombstones, const char *name,
				       int64_t now_ns)
{
	for (unsigned int back = 1; back <= LIMIT_TOMBSTONES; back++) {
		unsigned int at = (tombstones->next + LIMIT_TOMBSTONES - back) % LIMIT_TOMBSTONES;
		const struct tombstone *tombstone = &tombstones->ring[at];

		if (!*tombstone->name || now_ns - tombstone->when_ns > LIMIT_TOMBSTONE_S * NS_PER_S)
			return NULL; /* all others are older still */
		if (!strcmp(tombstone->name, name))
			return tombstone;
	}
	return NULL;
}
