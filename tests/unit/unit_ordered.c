// SPDX-License-Identifier: MIT
/* Names in order, of enough pieces that they are split and joined. */
#include "unit.h"

#include <stdio.h>

#include "state/store.h"

#define MANY 5000

static struct ordered ordered;
static struct entry *all[MANY];

static int begin(void **state)
{
	(void)state;
	for (int i = 0; i < MANY; i++) {
		all[i] = calloc(1, sizeof(**all));
		snprintf(all[i]->info.name, sizeof(all[i]->info.name), "n%04d", i);
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	ordered_finish(&ordered);
	for (int i = 0; i < MANY; i++)
		free(all[i]);
	return 0;
}

/* Those and no others are there, in order, each at its position and found by its name. */
static void assert_are(bool (*is_there)(int), size_t count)
{
	size_t at = 0;

	for (int i = 0; i < MANY; i++) {
		if (is_there(i)) {
			assert_ptr_equal(ordered_at(&ordered, at), all[i]);
			at++;
		}
		assert_int_equal(ordered_seek(&ordered, all[i]->info.name), at);
	}
	assert_int_equal(at, count);
	assert_null(ordered_at(&ordered, at));
	assert_null(ordered_at(&ordered, at + MANY));
	assert_int_equal(ordered_seek(&ordered, ""), 0);
	assert_int_equal(ordered_seek(&ordered, "z"), count);
	for (size_t i = 0; i < ordered.count; i++)
		assert_in_range(ordered.pieces[i].piece->count, 1, ORDERED_PIECE);
}

static bool every(int i)
{
	return i >= 0;
}

static bool third(int i)
{
	return i % 3 == 0;
}

static bool none(int i)
{
	return i < 0;
}

static void insert(int i)
{
	assert_true(ordered_reserve(&ordered));
	ordered_insert(&ordered, all[i]);
}

static void they_come_and_go_in_any_order(void **state)
{
	(void)state;
	assert_are(none, 0);
	for (int i = 0; i < MANY; i++)
		insert(i * 1009 % MANY);
	assert_are(every, MANY);
	assert_in_range(ordered.count, MANY / ORDERED_PIECE, MANY / (ORDERED_PIECE / 2) + 1);
	for (int i = 0; i < MANY; i++)
		if (!third(i * 1009 % MANY))
			ordered_remove(&ordered, all[i * 1009 % MANY]);
	assert_are(third, (MANY + 2) / 3);
	/* what is left takes no more room than twice as much did */
	assert_in_range(ordered.count, 1, 2 * ((MANY + 2) / 3) / (ORDERED_PIECE / 2) + 2);
	for (int i = 0; i < MANY; i += 3)
		ordered_remove(&ordered, all[i]);
	assert_are(none, 0);
	assert_int_equal(ordered.count, 0);
}

static void they_come_in_order_and_backwards(void **state)
{
	(void)state;
	for (int i = 0; i < MANY; i++)
		insert(i);
	assert_are(every, MANY);
	for (int i = MANY - 1; i >= 0; i--)
		ordered_remove(&ordered, all[i]);
	assert_are(none, 0);
	for (int i = MANY - 1; i >= 0; i--)
		insert(i);
	assert_are(every, MANY);
	for (int i = 0; i < MANY; i++)
		ordered_remove(&ordered, all[i]);
	assert_are(none, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(they_come_and_go_in_any_order, begin, end),
	    cmocka_unit_test_setup_teardown(they_come_in_order_and_backwards, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
