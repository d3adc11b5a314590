/* SPDX-License-Identifier: MIT */
/* What was freed in our own streams, waited for where memory is short: never for what the program holds up. */
#include "played_apart.h"

/* What has come is synchronized, once, which waits for nothing. */
static void drained(void **state)
{
	cu_stream alone;

	(void)state;
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	alone = played.freed_in;
	played.holds[64 + 1] = true;
	assert_int_equal(free_behind(1), CU_OK);
	assert_true(apart_drain(&driver, monotonic_ms()));
	assert_ptr_equal(played.synchronized, alone);
	assert_int_equal(played.asked[SYNCHRONIZE], 1);
	assert_false(apart_drain(&driver, monotonic_ms() + 5));
	all_goes_on();
	assert_true(apart_drain(&driver, monotonic_ms()));
	assert_int_equal(played.asked[SYNCHRONIZE], 2);
	assert_false(apart_drain(&driver, monotonic_ms()));
}

static void what_cannot_be_drained(void **state)
{
	static const enum call failing[] = {PUSH, RECORD, SYNCHRONIZE};

	(void)state;
	for (size_t i = 0; i < sizeof(failing) / sizeof(*failing); i++) {
		set_up(NULL);
		assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
		played.failing = failing[i];
		assert_false(apart_drain(&driver, monotonic_ms() + 1000));
		played.failing = CALLS;
		assert_int_equal(apart_drain(&driver, monotonic_ms()), failing[i] != SYNCHRONIZE);
	}
	set_up(NULL);
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	driver.cuCtxPushCurrent_v2 = NULL;
	assert_false(apart_drain(&driver, monotonic_ms()));
}

static void end_context(void)
{
	played.on_query = NULL;
	apart_forget(CONTEXT(0));
}

static void free_more(void)
{
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
}

static void while_others_are_at_it(void **state)
{
	(void)state;
	played.holds[64 + 1] = true;
	assert_int_equal(free_behind(1), CU_OK);
	played.asked[QUERY] = 0;
	played.on_query = end_context; /* its stream and event are not there any more */
	assert_false(apart_drain(&driver, monotonic_ms() + 1000));
	assert_int_equal(played.asked[QUERY], 1);
	free_more();
	played.on_synchronize = free_more;
	assert_true(apart_drain(&driver, monotonic_ms() + 1000));
	assert_in_range(played.asked[SYNCHRONIZE], 1, APART_CONTEXTS * PURPOSES);
}

static void free_behind_a_held_one(void)
{
	played.on_query = played.on_synchronize = played.on_wait = NULL;
	played.holds[64 + 1] = true;
	assert_int_equal(free_behind(1), CU_OK);
}

/* An own stream that had something to wait for, which has come; what was freed in it is owed. */
static cu_stream one_that_owes(void)
{
	free_behind_a_held_one();
	all_goes_on();
	return played.freed_in;
}

/* Another thread frees behind a stream that is held up, after all has come and before that is waited for. */
static void what_came_behind_a_held_one_meanwhile(void **state)
{
	cu_stream own = one_that_owes();

	(void)state;
	played.on_query = free_behind_a_held_one;
	assert_false(apart_drain(&driver, monotonic_ms() + 5));
	assert_ptr_equal(played.freed_in, own);
	assert_int_equal(played.asked[SYNCHRONIZE], 0);
	all_goes_on();
	assert_true(apart_drain(&driver, monotonic_ms()));
}

static void what_is_behind_it_when_it_is_waited_for(void **state)
{
	cu_stream own = one_that_owes();

	(void)state;
	played.on_synchronize = free_behind_a_held_one;
	assert_true(apart_drain(&driver, monotonic_ms()));
	assert_ptr_not_equal(played.freed_in, own);
	assert_false(played.behind[number(own)]);
	all_goes_on();
	assert_true(apart_drain(&driver, monotonic_ms()));
	assert_false(apart_drain(&driver, monotonic_ms()));
}

static bool drained_it;

static void drain_now(void)
{
	played.on_wait = NULL;
	drained_it = apart_drain(&driver, monotonic_ms());
}

/* Chosen by a thread that has not come to give it what it is to wait for. */
static void what_is_being_given_to_it(void **state)
{
	(void)state;
	one_that_owes();
	played.on_wait = drain_now;
	played.holds[64 + 1] = true;
	assert_int_equal(free_behind(1), CU_OK);
	assert_false(drained_it);
	assert_int_equal(played.asked[SYNCHRONIZE], 0);
	all_goes_on();
	assert_true(apart_drain(&driver, monotonic_ms()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(drained, set_up),
	    cmocka_unit_test_setup(what_cannot_be_drained, set_up),
	    cmocka_unit_test_setup(while_others_are_at_it, set_up),
	    cmocka_unit_test_setup(what_came_behind_a_held_one_meanwhile, set_up),
	    cmocka_unit_test_setup(what_is_behind_it_when_it_is_waited_for, set_up),
	    cmocka_unit_test_setup(what_is_being_given_to_it, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
