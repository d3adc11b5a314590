/* SPDX-License-Identifier: MIT */
/* The resync of the shim with the next registry, and the buffers that this registry wants again:
 * answers that fail, memory that can't be described, names that end meanwhile. */
#include "unit.h"

#include "base/monotonic.h"
#include "played_resync.h"
/* after played_resync.h, whose macros replace its calls */
#include "core/buffer/resync.c"
#include "preload/shim_resync.c"

static struct client its_client;

static void add(uint64_t generation, enum live_kind kind, uint32_t flags)
{
	struct live entry = {.kind = kind, .generation = generation, .size = 100, .flags = flags};

	if (kind != LIVE_OWN_VMM)
		entry.pointer = entry.mapping.pointer = generation * STEP;
	entry.mapping.handle = generation;
	entry.reading = resync_readings(&live_resync);
	snprintf(entry.name, sizeof(entry.name), "r%llu", (unsigned long long)generation);
	assert_true(kind == LIVE_OWN_VMM ? objects_add(&entry) : live_add(&entry));
}

static int set_up(void **state)
{
	played_begin(&its_client);
	stuck_lock = false;
	resync_finish(&live_resync);
	live_resync = (struct resync)RESYNC_INITIALIZER;
	resync_by(&live_resync, &shim_resync_calls, &its_client);
	return 0;
}

static int tear_down(void **state)
{
	struct live out;

	stuck_lock = false;
	for (uint64_t generation = 1; generation < 40; generation++) {
		while (live_take(generation * STEP, &out))
			;
		objects_free(objects_drop_handle(generation));
	}
	assert_false(live_any() || objects_concern());
	return 0;
}

static int tell_all(void)
{
	return tell(&its_client, &live_resync, monotonic_ms() + 60000);
}

static void share_wanted(void)
{
	if (resync_wants(&live_resync))
		shim_resync_share(monotonic_ms() + 60000);
}

static size_t wanted_now(void)
{
	return atomic_load(&live_resync.wants);
}

static bool logged(const char *words)
{
	return strstr(played.log, words) != NULL;
}

static void told_in_parts(void **state)
{
	for (uint64_t i = 1; i <= 2 * PART; i++)
		add(i, i % 3 ? LIVE_OWN : LIVE_VMM, 0);
	add(30, LIVE_OWN_VMM, 0);
	assert_int_equal(tell_all(), GPUSHARE_OK);
	assert_false(its_client.fresh);
	assert_int_equal(played.tellings, 3);
	assert_int_equal(played.told_count, 2 * PART + 1);
	assert_int_equal(wanted_now(), 0);
	share_wanted(); /* nothing is wanted */
	assert_int_equal(played.shares, 0);
}

/* Once half of the time is over, the next call sends the rest of the resync. */
static void told_as_far_as_there_is_time(void **state)
{
	for (uint64_t i = 1; i <= PART; i++)
		add(i, LIVE_OWN, 0);
	assert_int_equal(tell(&its_client, &live_resync, monotonic_ms()), GPUSHARE_OK);
	assert_true(its_client.fresh && live_resync.goes_on);
	assert_int_equal(played.told_count, PART);
	assert_int_equal(tell_all(), GPUSHARE_OK);
	assert_false(its_client.fresh);
	assert_int_equal(played.told_count, PART);
	assert_int_equal(played.tellings, 2);
}

/* Something has changed in a part that was sent already: after the last part the resync is
 * repeated. */
static void told_once_more_when_all_is_told(void **state)
{
	for (uint64_t i = 1; i <= PART; i++)
		add(i, LIVE_OWN, 0);
	assert_int_equal(tell(&its_client, &live_resync, monotonic_ms()), GPUSHARE_OK);
	client_tell_anew(&its_client);
	assert_int_equal(tell_all(), GPUSHARE_OK);
	assert_true(its_client.fresh && !live_resync.goes_on);
	assert_int_equal(played.tellings, 2);
	assert_int_equal(played.told_count, PART);
	assert_int_equal(tell_all(), GPUSHARE_OK);
	assert_false(its_client.fresh);
	assert_int_equal(played.told_count, 2 * PART);
}

static void told_to_one_that_refuses(void **state)
{
	add(1, LIVE_OWN, 0);
	played.to_tell = GPUSHARE_E_LIMIT;
	assert_int_equal(tell_all(),
			 GPUSHARE_OK); /* the program's own request is sent all the same */
	assert_false(its_client.fresh);
	assert_true(logged("could not report the shared buffers to the registry: as planned"));
	its_client.fresh = played.cuts = true;
	played.to_tell = GPUSHARE_E_NO_REGISTRY;
	assert_int_equal(tell_all(), GPUSHARE_E_NO_REGISTRY);
	assert_true(its_client.fresh);
	played.cuts = false;
	played.to_tell = GPUSHARE_OK;
	played.other_body = played.wants_all = true;
	assert_int_equal(tell_all(), GPUSHARE_OK);
	assert_int_equal(wanted_now(), 0);
}

static void not_told_while_a_table_is_held(void **state)
{
	add(1, LIVE_OWN, 0);
	played.async_stuck = true;
	assert_int_equal(tell_all(), GPUSHARE_OK);
	played.async_stuck = false;
	played.objects_stuck = true;
	assert_int_equal(tell_all(), GPUSHARE_OK);
	assert_true(its_client.fresh && !live_resync.goes_on);
	assert_int_equal(played.tellings, 0);
}

static void ask_for_all(void)
{
	played.wants_all = its_client.fresh = true;
	live_resync.connection = 1;
	assert_int_equal(tell_all(), GPUSHARE_OK);
}

static void shared_again(void **state)
{
	add(1, LIVE_OWN, 0);
	add(2, LIVE_VMM, GPUSHARE_FLAG_KEEP);
	add(3, LIVE_OWN_VMM, 0);
	ask_for_all();
	assert_int_equal(wanted_now(), 3);
	share_wanted();
	assert_int_equal(played.shares, 3);
	assert_true(played.last.again == 1 && !played.last.orphan); /* the latest is first */
	assert_string_equal(played.last_what.name, "r1");
	assert_true(logged("\"r2\" is known to the registry again"));
	assert_int_equal(played.pages_ended + played.withdrawals, 0);
}

static void what_others_have_is_not_ours_to_bring(void **state)
{
	add(1, LIVE_IPC, GPUSHARE_FLAG_KEEP);
	add(2, LIVE_VMM, 0);
	ask_for_all();
	assert_int_equal(wanted_now(), 2);
	share_wanted();
	assert_int_equal(played.shares, 0);
	assert_string_equal(played.log, "");
}

static void that_cannot_be_described(void **state)
{
	add(1, LIVE_OWN, 0);
	add(2, LIVE_VMM, GPUSHARE_FLAG_KEEP);
	played.refuses = true;
	played.call = "cuIpcGetMemHandle";
	ask_for_all();
	share_wanted();
	assert_int_equal(played.shares, 0);
	assert_true(logged("\"r2\" can't be brought back: cuIpcGetMemHandle answered"));
	assert_true(logged("\"r1\" is not shared any more: the registry was restarted, and "
			   "cuIpcGetMemHandle answered CUDA_ERROR_UNKNOWN"));
	assert_int_equal(played.pages_ended, 1);
	assert_false(live_get(STEP, 1, &(struct live){0})); /* it has no name any more */
	assert_true(live_get(2 * STEP, 2, &(struct live){0}));
}

/* The memory is freed before the shim shares it again, while the shim describes it, and while
 * the registry is asked. */
static void freed_meanwhile(void **state)
{
	struct live out;

	add(1, LIVE_OWN, 0);
	ask_for_all();
	assert_true(live_take(STEP, &out));
	share_wanted();
	assert_int_equal(played.shares, 0);
	for (int refused = 0; refused < 2; refused++) {
		add(1, LIVE_OWN, 0);
		played.refuses = refused;
		played.call = "a call";
		ask_for_all();
		played.frees_meanwhile = true;
		share_wanted();
		played.frees_meanwhile = played.refuses = false;
		assert_int_equal(played.shares, 0);
	}
	assert_string_equal(played.log, "");
	add(1, LIVE_OWN, 0);
	ask_for_all();
	played.frees_late = true;
	share_wanted();
	assert_int_equal(played.shares, 1);
	assert_int_equal(played.withdrawals, 1); /* the new share is withdrawn */
}

static void refused_again(void **state)
{
	add(1, LIVE_OWN, 0);
	add(2, LIVE_OWN_VMM, 0);
	played.to_share = GPUSHARE_E_EXISTS;
	ask_for_all();
	share_wanted();
	assert_int_equal(played.shares, 2);
	assert_true(logged("\"r1\" is not shared any more: the registry was restarted, and it is "
			   "taken"));
	assert_int_equal(played.pages_ended, 2);
	assert_false(objects_get(2, 2, &(struct live){0}) || resync_missed(&live_resync));
}

/* The registry ends during the sharing: the next one gets a whole resync. */
static void the_registry_went(void **state)
{
	static const int ways[] = {GPUSHARE_E_NO_REGISTRY, GPUSHARE_E_TIMED_OUT};

	add(1, LIVE_OWN, 0);
	add(2, LIVE_OWN, 0);
	for (unsigned int i = 0; i < 2; i++) {
		played.to_share = ways[i];
		ask_for_all();
		share_wanted();
		assert_int_equal(played.shares, i + 1); /* the shim tries no further buffer */
		assert_true(resync_missed(&live_resync));
		assert_int_equal(wanted_now(), 1);
	}
	assert_true(live_get(STEP, 1, &(struct live){0}));
}

static void not_now(void **state)
{
	add(1, LIVE_OWN, 0);
	ask_for_all();
	played.ending = true;
	share_wanted();
	played.ending = false;
	played.standing = NULL;
	share_wanted();
	played.standing = &played.driver;
	shim_resync_share(monotonic_ms()); /* no time is left */
	atomic_flag_test_and_set(&live_resync.sharing);
	share_wanted(); /* another thread shares */
	atomic_flag_clear(&live_resync.sharing);
	stuck_lock = true;
	share_wanted();
	assert_false(forget_wanted(&live_resync));
	stuck_lock = false;
	assert_int_equal(played.shares, 0);
	assert_int_equal(wanted_now(), 1);
}

/* If the shim can't note a wanted buffer, it repeats the resync. */
static void wanted_without_lock_and_memory(void **state)
{
	for (uint64_t i = 1; i <= 20; i++)
		add(i, LIVE_OWN, 0);
	empty(&live_resync.wanted);
	played.no_grow = true;
	ask_for_all();
	assert_int_equal(wanted_now(), 0);
	assert_true(its_client.fresh);
	want(&live_resync, &(struct resync_ref){.generation = 1}, false);
	assert_true(resync_missed(&live_resync));
	played.no_grow = false;
	ask_for_all();
	assert_int_equal(wanted_now(), 20);
	assert_false(resync_missed(&live_resync));
	stuck_lock = true;
	want(&live_resync, &(struct resync_ref){.generation = 1}, false);
	stuck_lock = false;
	assert_true(resync_missed(&live_resync));
	assert_int_equal(wanted_now(), 20);
}

#define resynced(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(resynced(told_in_parts), resynced(told_as_far_as_there_is_time),
	  resynced(told_once_more_when_all_is_told), resynced(told_to_one_that_refuses),
	  resynced(not_told_while_a_table_is_held), resynced(shared_again),
	  resynced(what_others_have_is_not_ours_to_bring), resynced(that_cannot_be_described),
	  resynced(freed_meanwhile), resynced(refused_again), resynced(the_registry_went),
	  resynced(not_now), resynced(wanted_without_lock_and_memory))
