/* SPDX-License-Identifier: MIT */
/* A share that was not answered: a resync leaves it out, so that the registry ends what it may
 * have of it. Then the shim shares the name anew. */
#include "unit.h"

#include "base/monotonic.h"
#include "played_resync.h"
/* after played_resync.h, whose macros replace its calls */
#include "core/buffer/resync.c"
#include "preload/shim_resync.c"

static struct client its_client;

static void add(uint64_t pointer, uint64_t generation, const char *name)
{
	struct live entry = {.pointer = pointer,
			     .generation = generation,
			     .size = 100,
			     .reading = resync_readings(&live_resync)};

	snprintf(entry.name, sizeof(entry.name), "%s", name);
	assert_true(live_add(&entry));
}

/* Add a buffer that is settled, and one that is not. */
static int set_up(void **state)
{
	played_begin(&its_client);
	resync_finish(&live_resync);
	live_resync = (struct resync)RESYNC_INITIALIZER;
	resync_by(&live_resync, &shim_resync_calls, &its_client);
	add(STEP, 1, "told");
	add(2 * STEP, 0, "unsynced");
	return 0;
}

static int tear_down(void **state)
{
	struct live out;

	for (uint64_t at = 1; at < 40; at++)
		live_take(at * STEP, &out);
	return live_any();
}

static void tell_in(int64_t ms)
{
	assert_int_equal(tell(&its_client, &live_resync, monotonic_ms() + ms), GPUSHARE_OK);
}

static void share_wanted(void)
{
	shim_resync_share(monotonic_ms() + 60000);
}

static void asked_for_as_new(void **state)
{
	struct live entry;

	tell_in(60000);
	assert_int_equal(played.told_count, 1);
	played.shared_as = 9;
	share_wanted();
	assert_int_equal(played.shares, 1);
	assert_string_equal(played.last_what.name, "unsynced");
	assert_true(!played.last.again && !played.last.orphan);
	assert_true(live_get(2 * STEP, 9, &entry));
	assert_false(live_is_unsettled(&entry));
	assert_int_equal(played.pages_added, 1);
	assert_non_null(strstr(played.log, "\"unsynced\" is shared: 100 bytes"));
	share_wanted();
	assert_int_equal(played.shares, 1);
}

static void freed_before_that(void **state)
{
	struct live entry;

	tell_in(60000);
	assert_true(live_take(2 * STEP, &entry));
	share_wanted();
	assert_int_equal(played.shares, 0);
}

static void taken_by_another(void **state)
{
	struct live entry;

	tell_in(60000);
	played.to_share = GPUSHARE_E_EXISTS;
	share_wanted();
	assert_false(live_get(2 * STEP, 0, &entry));
	assert_non_null(strstr(played.log, "\"unsynced\" is not shared: it is taken"));
	assert_false(resync_missed(&live_resync));
	assert_true(live_find(2 * STEP, 2 * STEP, &entry)); /* the memory stays the program's */
	assert_string_equal(entry.name, "");
}

/* The name may be taken by a buffer that ends with the resync, so the shim shares it later. */
static void taken_while_there_is_more_to_tell(void **state)
{
	struct live entry;
	char name[8];

	for (uint64_t at = 3; at < 3 + 2 * PART; at++) {
		snprintf(name, sizeof(name), "n%u", (unsigned int)at);
		add(at * STEP, at, name);
	}
	tell_in(0);
	assert_true(live_resync.goes_on);
	played.to_share = GPUSHARE_E_EXISTS;
	share_wanted();
	assert_true(live_get(2 * STEP, 0, &entry));
	assert_true(resync_missed(&live_resync));
	its_client.fresh = true;
	its_client.connections++;
	tell_in(60000);
	played.to_share = GPUSHARE_OK;
	played.shared_as = 99;
	share_wanted();
	assert_true(live_get(2 * STEP, 99, &entry));
}

static void not_answered_again(void **state)
{
	struct live entry;

	tell_in(60000);
	played.to_share = GPUSHARE_E_NOT_READY;
	share_wanted();
	assert_true(live_get(2 * STEP, 0, &entry));
	assert_true(resync_missed(&live_resync));
}

#define unsettled(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(unsettled(asked_for_as_new), unsettled(freed_before_that), unsettled(taken_by_another),
	  unsettled(taken_while_there_is_more_to_tell), unsettled(not_answered_again))
