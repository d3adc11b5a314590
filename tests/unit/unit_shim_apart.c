/* SPDX-License-Identifier: MIT */
/* Our own streams, in a driver that answers as it is told: which one is given what, how many there are, and
 * what is left where a call fails. */
#include "played_apart.h"

static void one_that_waits_for_nothing(void **state)
{
	cu_stream alone;

	(void)state;
	assert_false(apart_any());
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	alone = played.freed_in;
	assert_true(apart_any() && played.streams == 1);
	assert_int_equal(free_behind(1), CU_OK); /* that is done */
	assert_true(played.freed_in == alone && played.streams == 1 && !played.asked[WAIT]);
	assert_int_equal(played.events, 1); /* the one for each free is none any more */
	assert_int_equal(apart_free(&driver, CONTEXT(1), POINTER), CU_OK);
	assert_true(played.freed_in != alone && played.streams == 2);
	assert_int_equal(apart_free(&driver, NULL, POINTER), CU_NOT_SUPPORTED);
	assert_int_equal(apart_free_behind(&driver, NULL, PROGRAMS(1), POINTER), CU_NOT_SUPPORTED);
}

/* Each that is held up has one of its own, again and again; one that has come is another's. */
static void one_for_each_that_is_held_up(void **state)
{
	cu_stream its[BEHIND + 8];

	(void)state;
	for (int i = BEHIND; i < PURPOSES; i++) {
		played.holds[64 + i] = true;
		assert_int_equal(free_behind(i), CU_OK);
		its[i] = played.freed_in;
		for (int j = BEHIND; j < i; j++)
			assert_ptr_not_equal(its[i], its[j]);
	}
	for (int i = BEHIND; i < PURPOSES; i++) {
		assert_int_equal(free_behind(i), CU_OK);
		assert_ptr_equal(played.freed_in, its[i]);
	}
	assert_int_equal(played.streams, PURPOSES - BEHIND);
	assert_int_equal(free_behind(PURPOSES), CU_OK); /* not held up: behind none of them */
	for (int j = BEHIND; j < PURPOSES; j++)
		assert_ptr_not_equal(played.freed_in, its[j]);
	played.holds[64 + PURPOSES + 1] =
	    true; /* more than there are streams for: behind another, too */
	assert_int_equal(free_behind(PURPOSES + 1), CU_OK);
	assert_ptr_equal(played.freed_in, its[PURPOSES - 1]);
	assert_int_equal(played.streams, PURPOSES);
	all_goes_on();
	played.holds[64 + PURPOSES + 2] = true;
	assert_int_equal(free_behind(PURPOSES + 2), CU_OK);
	assert_ptr_equal(played.freed_in, its[BEHIND]);
}

static void enter_as_another_thread(void)
{
	struct own_stream out;

	assert_true(open_one(&driver, CONTEXT(0), ALONE, &out));
}

static void another_thread_was_quicker(void **state)
{
	(void)state;
	played.on_stream = enter_as_another_thread;
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	assert_ptr_equal(played.freed_in, apart.known[0].stream);
	assert_true(played.streams == 1 && played.events == 1 && atomic_load(&apart.count) == 1);
}

static void more_contexts_than_there_is_room_for(void **state)
{
	int all = APART_CONTEXTS * PURPOSES;

	(void)state;
	for (int i = 0; i < all; i++)
		assert_int_equal(apart_free(&driver, CONTEXT(i), POINTER), CU_OK);
	assert_int_equal(apart_free(&driver, CONTEXT(all), POINTER), CU_NOT_SUPPORTED);
	assert_true(played.streams == all && played.events == all);
	apart_forget(CONTEXT(7)); /* its streams went with it */
	assert_int_equal(apart_free(&driver, CONTEXT(all), POINTER), CU_OK);
	for (int i = 0; i <= all; i++)
		apart_forget(CONTEXT(i));
	assert_false(apart_any());
	assert_false(apart_drain(&driver, monotonic_ms()));
}

/* Either it is freed, or nothing is done; nothing that was made for it is left, nor the table spoilt. */
static void what_fails_is_not_done(void **state)
{
	(void)state;
	for (played.failing = 0; played.failing < SYNCHRONIZE; played.failing++) {
		for (unsigned int from = 0; from < 3; from++) {
			enum call failing = played.failing;
			cu_result result;

			set_up(NULL);
			played.failing = failing;
			played.from = from;
			played.holds[64 + 1] = true;
			result = free_behind(1);
			if (result == CU_OK)
				assert_int_equal(played.asked[FREE], 1);
			else
				assert_true(!played.asked[FREE] || failing == FREE);
			assert_true(result == CU_OK || played.asked[failing] > from);
			assert_int_equal(played.streams, atomic_load(&apart.count));
			assert_int_equal(played.events, played.streams);
			played.failing = CALLS;
			assert_int_equal(free_behind(1), CU_OK);
			assert_int_equal(played.asked[FREE],
					 (result == CU_OK || failing == FREE) + 1);
			played.failing = failing;
		}
	}
}

static void an_older_driver(void **state)
{
	void **const needed[] = {
	    (void **)&driver.cuStreamCreate,	  (void **)&driver.cuStreamDestroy_v2,
	    (void **)&driver.cuStreamSynchronize, (void **)&driver.cuStreamWaitEvent,
	    (void **)&driver.cuEventCreate,	  (void **)&driver.cuEventDestroy_v2,
	    (void **)&driver.cuEventRecord,	  (void **)&driver.cuEventQuery,
	    (void **)&driver.cuMemFreeAsync,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		void *whole = *needed[i];

		*needed[i] = NULL;
		assert_int_equal(free_behind(1), CU_NOT_SUPPORTED);
		assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_NOT_SUPPORTED);
		*needed[i] = whole;
	}
	assert_true(!apart_any() && !played.next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(one_that_waits_for_nothing, set_up),
	    cmocka_unit_test_setup(one_for_each_that_is_held_up, set_up),
	    cmocka_unit_test_setup(another_thread_was_quicker, set_up),
	    cmocka_unit_test_setup(more_contexts_than_there_is_room_for, set_up),
	    cmocka_unit_test_setup(what_fails_is_not_done, set_up),
	    cmocka_unit_test_setup(an_older_driver, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
