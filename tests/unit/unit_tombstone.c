/* SPDX-License-Identifier: MIT */
/* What is remembered of names that went. */
#include "unit.h"

#include "os/clock.h"
#include "state/entry.h"
#include "state/limit.h"
#include "state/tombstone.h"

static void tombstones_are_few_and_forgotten(void **state)
{
	static struct tombstones tombstones;
	char name[16];
	struct process owner = {.pid = 1};
	struct entry entry = {.owner = &owner, .info.name = name};
	int64_t now = 1000 * NS_PER_S;

	assert_null(tombstone_find(&tombstones, "t", now));
	for (int i = 0; i < LIMIT_TOMBSTONES + 10; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		tombstone_add(&tombstones, &entry, DEPARTURE_OWNER_GONE, now);
	}
	assert_null(tombstone_find(&tombstones, "t9", now));
	assert_non_null(tombstone_find(&tombstones, "t10", now));
	assert_non_null(tombstone_find(&tombstones, name, now + LIMIT_TOMBSTONE_S * NS_PER_S));
	assert_null(tombstone_find(&tombstones, name, now + (LIMIT_TOMBSTONE_S + 1) * NS_PER_S));
	owner.pid = 2;
	strcpy(name, "t500");
	tombstone_add(&tombstones, &entry, DEPARTURE_UNLINKED, now);
	assert_int_equal(tombstone_find(&tombstones, "t500", now)->owner.pid, 2); /* the latest */
}

UNIT_MAIN(UNIT(tombstones_are_few_and_forgotten))
