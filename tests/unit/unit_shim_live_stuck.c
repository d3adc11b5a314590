/* SPDX-License-Identifier: MIT */
/* The table of pointers if its lock can't be taken, and lookups by generation and by managed
 * range. */
#include "unit.h"

#include "stuck.h"
/* after stuck.h, whose macros replace its calls */
#include "preload/shim_live.c"

#define STEP 512
#define CONTEXT ((cu_context)(uintptr_t)64)

static struct live entry_of(uint64_t pointer, enum live_kind kind, uint64_t generation)
{
	struct live entry = {.pointer = pointer,
			     .size = 100,
			     .kind = kind,
			     .context = CONTEXT,
			     .mapping = {.pointer = pointer},
			     .generation = generation};

	snprintf(entry.name, sizeof(entry.name), "b%llu", (unsigned long long)generation);
	entry.reading = resync_readings(&live_resync);
	return entry;
}

static void add(uint64_t pointer, enum live_kind kind, uint64_t generation)
{
	const struct live entry = entry_of(pointer, kind, generation);

	assert_true(live_add(&entry));
}

static int empty_table(void **state)
{
	struct node *node, *next;

	stuck_lock = false;
	HASH_ITER (hh, table.nodes, node, next) {
		take_out(node);
		free(node);
	}
	assert_false(live_any() || live_any_managed() || table.shifted);
	return 0;
}

static unsigned int attached(uint64_t generation)
{
	gpushare_Hold hold = {.generation = generation};

	live_count(&hold);
	return hold.count;
}

/* The table acts as if it was empty, and has all its entries afterwards. */
static void nothing_is_found_or_changed(void **state)
{
	struct live entry = entry_of(4 * STEP, LIVE_OWN, 4), out = {.generation = 99};
	struct resync told = {.calls = NULL};

	add(STEP, LIVE_OWN, 1);
	add(2 * STEP, LIVE_OPENED, 2);
	entry.managed = true;
	entry.pointer = 3 * STEP;
	entry.kind = LIVE_OWN_VMM;
	assert_true(live_add(&entry));
	stuck_lock = true;
	entry.pointer = 5 * STEP;
	assert_false(live_add(&entry));
	assert_false(live_take(STEP, &out) || live_take_opened(2 * STEP, &out));
	assert_false(live_open_again(2, &out));
	assert_false(live_take_of(CONTEXT, true, &out) || live_unname_of(CONTEXT, &out));
	assert_false(live_find(STEP, STEP, &out) || live_find_managed(3 * STEP, 1, &out));
	assert_false(live_list(&told));
	assert_false(live_get(STEP, 1, &out) || live_rename(STEP, 1, 7));
	assert_int_equal(attached(2), 0);
	assert_int_equal(out.generation, 99);
	stuck_lock = false;
	assert_int_equal(attached(2), 1);
	assert_true(live_get(STEP, 1, &out) && live_find_managed(3 * STEP, 1, &out));
	assert_false(live_maybe(5 * STEP));
}

static void by_pointer_and_generation(void **state)
{
	struct live out = {.generation = 99};

	add(STEP, LIVE_OWN, 1);
	assert_false(live_get(2 * STEP, 1, &out) || live_get(STEP, 2, &out));
	assert_false(live_rename(2 * STEP, 1, 5) || live_rename(STEP, 2, 5));
	assert_int_equal(out.generation, 99);
	assert_true(live_get(STEP, 1, &out));
	assert_int_equal(out.reading, resync_readings(&live_resync));
	assert_true(live_rename(STEP, 1, 5));
	assert_false(live_get(STEP, 1, &out));
	assert_true(live_get(STEP, 5, &out));
	assert_true(live_rename(STEP, 5, 0)); /* now it has no name */
	assert_false(live_get(STEP, 5, &out) || live_rename(STEP, 5, 6));
	assert_true(live_find(STEP, STEP, &out));
	assert_string_equal(out.name, "");
}

/* An opened handle is one attachment, however often it was opened. Each attachment by name
 * counts. */
static void attached_how_often(void **state)
{
	struct live out;

	add(STEP, LIVE_IPC, 3);
	add(STEP, LIVE_IPC, 3);
	add(2 * STEP, LIVE_OPENED, 3);
	assert_true(live_open_again(3, &out));
	assert_false(live_open_again(4, &out));
	add(3 * STEP, LIVE_VMM, 3);
	add(4 * STEP, LIVE_OWN, 3);
	add(5 * STEP, LIVE_VMM, 4);
	assert_int_equal(attached(3), 4);
	assert_int_equal(attached(4), 1);
	assert_int_equal(attached(5), 0);
}

/* Only a range within one managed buffer is found. */
static void managed_ranges(void **state)
{
	struct live entry = entry_of(8 * STEP, LIVE_OWN_VMM, 1), out = {.generation = 99};

	assert_false(live_find_managed(8 * STEP, 1, &out));
	entry.managed = true;
	assert_true(live_add(&entry));
	add(9 * STEP, LIVE_OWN, 2);
	assert_false(live_find_managed(8 * STEP - 1, 1, &out));
	assert_false(live_find_managed(8 * STEP + 100, 1, &out));
	assert_false(live_find_managed(8 * STEP + 50, 51, &out));
	assert_false(live_find_managed(9 * STEP, 1, &out));
	assert_int_equal(out.generation, 99);
	assert_true(live_find_managed(8 * STEP + 50, 50, &out));
	assert_true(out.generation == 1 && out.managed);
}

/* Of several names in one allocation, the pointer belongs to the last that doesn't begin behind
 * it. */
static void names_in_one_allocation(void **state)
{
	struct live entry = entry_of(STEP, LIVE_VMM, 1), out;

	for (uint64_t i = 0; i < 3; i++) { /* at 1200, 1100 and 1000 */
		entry = entry_of(1200 - 100 * i, LIVE_VMM, i + 1);
		entry.mapping.pointer = 1000;
		assert_true(live_add(&entry));
	}
	assert_true(live_find(1000, 1150, &out));
	assert_int_equal(out.generation, 2);
	assert_true(live_find(1000, 1000, &out));
	assert_int_equal(out.generation, 3);
	assert_true(live_find(1000, 5000, &out));
	assert_int_equal(out.generation, 1);
	assert_false(live_find(1001, 1150, &out) || live_find(1000, 999, &out));
}

static void counted_at_its_place(void **state)
{
	struct live entry, out[1];

	add(3 * STEP, LIVE_IPC, 5);
	add(3 * STEP, LIVE_IPC, 5);
	assert_true(live_take(3 * STEP, out));
	assert_int_equal(out->count, 1);
	entry = entry_of(3 * STEP, LIVE_VMM, 6);
	assert_true(live_add(&entry) && live_take(3 * STEP, out));
	assert_true(out->count == 0 && out->generation == 6);
}

#define over(test) cmocka_unit_test_setup_teardown(test, empty_table, empty_table)

UNIT_MAIN(over(nothing_is_found_or_changed), over(by_pointer_and_generation),
	  over(attached_how_often), over(managed_ranges), over(names_in_one_allocation),
	  over(counted_at_its_place))
