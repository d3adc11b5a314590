/* SPDX-License-Identifier: MIT */
/* Named cuMemCreate memory: what holds it, what the registry is told of it, and what happens
 * without the table's lock or without memory. */
#include "unit.h"

#include "stuck.h"
/* after stuck.h, whose macros replace its calls */
#include "preload/shim_objects.c"

#define STEP ((uint64_t)2 << 20)

static struct live entry_of(cu_mem_handle handle, uint64_t generation, enum live_kind kind)
{
	struct live entry = {
	    .kind = kind, .generation = generation, .mapping = {.handle = handle, .size = STEP}};

	snprintf(entry.name, sizeof(entry.name), "o%llu", (unsigned long long)generation);
	entry.reading = resync_readings(&live_resync);
	return entry;
}

static void add(cu_mem_handle handle, uint64_t generation, enum live_kind kind)
{
	const struct live entry = entry_of(handle, generation, kind);

	errno = 77;
	assert_true(objects_add(&entry));
	assert_int_equal(errno, 77);
}

/* Drop one handle. Return the generation of the object that this ended; 0: none. */
static uint64_t drop(cu_mem_handle handle)
{
	struct object *ended = objects_drop_handle(handle);
	uint64_t generation = ended ? ended->entry.generation : 0;

	assert_true(!ended || !ended->next);
	objects_free(ended);
	return generation;
}

static uint64_t unmap(cu_deviceptr pointer, size_t size, bool gone)
{
	struct object *ended = objects_settle_places(objects_take_places(pointer, size), gone);
	uint64_t generation = ended ? ended->entry.generation : 0;

	assert_true(!ended || !ended->next);
	objects_free(ended);
	return generation;
}

static int empty_table(void **state)
{
	stuck_lock = false;
	stuck_after = -1u;
	assert_false(objects_concern());
	assert_int_equal(HASH_COUNT(table.nodes) + HASH_COUNT(table.places), 0);
	return 0;
}

static void held_by_handles_and_mappings(void **state)
{
	add(11, 1, LIVE_OWN_VMM);
	assert_true(objects_concern());
	objects_add_handle(11);
	objects_add_handle(12); /* a handle of no object */
	assert_int_equal(drop(12), 0);
	assert_int_equal(drop(11), 0);
	objects_add_place(STEP, 11);
	objects_add_place(STEP, 11); /* the driver would refuse that */
	objects_add_place(9 * STEP, 12);
	assert_int_equal(drop(11), 0);
	assert_int_equal(drop(11), 0); /* it has no handle left */
	assert_true(objects_concern());
	assert_int_equal(unmap(2 * STEP, STEP, true), 0); /* nothing is mapped there */
	assert_int_equal(unmap(0, STEP, true), 0);
	assert_int_equal(unmap(STEP, STEP, false), 0); /* the driver refused */
	assert_int_equal(unmap(0, 2 * STEP, true), 1);
	assert_false(objects_concern());
}

/* One unmapping may end several objects, and returns all of them. */
static void several_end_at_once(void **state)
{
	struct object *ended;

	for (unsigned int i = 0; i < 3; i++) {
		add(20 + i, 1 + i, LIVE_OWN_VMM);
		objects_add_place((i + 1) * STEP, 20 + i);
		assert_int_equal(drop(20 + i), 0);
	}
	ended = objects_settle_places(objects_take_places(STEP, 3 * STEP), true);
	assert_non_null(ended);
	assert_non_null(ended->next);
	assert_non_null(ended->next->next);
	assert_null(ended->next->next->next);
	assert_int_equal(ended->entry.generation + ended->next->entry.generation +
			     ended->next->next->entry.generation,
			 6);
	objects_free(ended);
	assert_false(objects_concern());
}

static unsigned int attached(uint64_t generation)
{
	gpushare_Hold hold = {.generation = generation};

	objects_count(&hold);
	return hold.count;
}

static void counted_as_attached(void **state)
{
	add(31, 5, LIVE_VMM);
	add(32, 5, LIVE_VMM);
	add(33, 5, LIVE_OWN_VMM);
	add(34, 6, LIVE_VMM);
	assert_int_equal(attached(5), 2);
	assert_int_equal(attached(6), 1);
	assert_int_equal(attached(7), 0);
	for (cu_mem_handle handle = 31; handle < 35; handle++)
		assert_int_not_equal(drop(handle), 0);
	assert_int_equal(attached(5), 0);
}

static void listed(void **state)
{
	struct resync told = {.calls = NULL};
	uint64_t sum = 0;

	for (unsigned int i = 0; i < 5; i++)
		add(40 + i, 1u << i, LIVE_OWN_VMM);
	assert_true(objects_rename(42, 4, 0)); /* has no name any more */
	assert_true(objects_list(&told));
	assert_int_equal(told.told.count, 4);
	for (size_t i = 0; i < told.told.count; i++) {
		const struct resync_ref *ref = &told.told.refs[i];

		assert_true(ref->object && !ref->attached);
		assert_true(objects_get(ref->key, ref->generation, &(struct live){0}));
		sum += ref->generation;
	}
	assert_int_equal(sum, 1 + 2 + 8 + 16); /* each once */
	resync_finish(&told);
	for (cu_mem_handle handle = 40; handle < 45; handle++)
		assert_int_not_equal(drop(handle), 0);
}

static void found_and_renamed(void **state)
{
	struct live out = {.generation = 99};

	add(51, 1, LIVE_OWN_VMM);
	add(52, 2, LIVE_OWN_VMM);
	assert_false(objects_get(53, 1, &out) || objects_get(51, 2, &out));
	assert_false(objects_rename(53, 1, 7) || objects_rename(51, 2, 7));
	assert_int_equal(out.generation, 99);
	assert_true(objects_get(51, 1, &out));
	assert_string_equal(out.name, "o1");
	assert_int_equal(out.mapping.pointer, 0);
	assert_true(objects_rename(51, 1, 7));
	assert_false(objects_get(51, 1, &out));
	assert_true(objects_get(51, 7, &out));
	assert_int_equal(out.generation, 7);
	/* Without a handle an object's pointer is where it is mapped. */
	objects_add_place(3 * STEP, 52);
	objects_add_place(2 * STEP, 51);
	assert_int_equal(drop(51), 0);
	assert_true(objects_get(51, 7, &out));
	assert_int_equal(out.mapping.pointer, 2 * STEP);
	assert_true(objects_rename(51, 7, 0));
	assert_false(objects_get(51, 7, &out) || objects_rename(51, 7, 8));
	assert_int_equal(drop(52), 0);
	assert_int_equal(unmap(2 * STEP, STEP, true), 7);
	assert_int_equal(unmap(3 * STEP, STEP, true), 2);
}

/* An object that is added during a resync counts as missed by it. */
static void added_late(void **state)
{
	struct live entry = entry_of(61, 1, LIVE_OWN_VMM);

	resync_missed(&live_resync);
	live_resync.readings += 2;
	assert_true(objects_add(&entry));
	assert_true(resync_missed(&live_resync));
	assert_int_equal(drop(61), 1);
	add(62, 2, LIVE_OWN_VMM);
	assert_false(resync_missed(&live_resync));
	assert_int_equal(drop(62), 2);
}

static void without_memory(void **state)
{
	const struct live entry = entry_of(71, 1, LIVE_OWN_VMM);
	struct live out;

	for (unsigned int had = 0; had < 3; had++) { /* the node, and two of the hash table */
		stuck_after = had;
		errno = 77;
		assert_false(objects_add(&entry));
		assert_int_equal(errno, 77);
		assert_false(objects_concern() || table.nodes);
	}
	stuck_after = -1u;
	add(71, 1, LIVE_OWN_VMM);
	for (unsigned int had = 0; had < 3; had++) {
		stuck_after = had;
		objects_add_place(STEP, 71);
		assert_null(table.places);
	}
	assert_true(objects_get(71, 1, &out)); /* it has its handle and no mapping */
	assert_int_equal(drop(71), 1);
}

/* Nothing changes, and no call returns anything. */
static void without_the_lock(void **state)
{
	const struct live entry = entry_of(82, 2, LIVE_OWN_VMM);
	struct places *taken;
	struct resync told = {.calls = NULL};
	struct live out;

	add(81, 1, LIVE_VMM);
	objects_add_place(STEP, 81);
	stuck_lock = true;
	assert_false(objects_add(&entry));
	assert_null(objects_drop_handle(81));
	objects_add_handle(81);
	objects_add_place(2 * STEP, 81);
	assert_null(objects_take_places(STEP, STEP));
	assert_int_equal(attached(1), 0);
	assert_false(objects_list(&told));
	assert_false(objects_get(81, 1, &out) || objects_rename(81, 1, 3));
	stuck_lock = false;
	assert_int_equal(attached(1), 1);
	assert_int_equal(HASH_COUNT(table.nodes), 1);
	assert_int_equal(HASH_COUNT(table.places), 1);
	taken = objects_take_places(STEP, STEP);
	assert_non_null(taken);
	stuck_lock = true;
	assert_null(objects_settle_places(taken, true));
	stuck_lock = false;
	/* It still counts as mapped: without the lock the unmapping could not be noted. */
	assert_int_equal(attached(1), 1);
	assert_null(objects_settle_places(NULL, true));
	assert_int_equal(drop(81), 0);
	table.nodes->mappings = 0;
	table.nodes->handles = 1;
	free(taken);
	assert_int_equal(drop(81), 1);
}

#define over(test) cmocka_unit_test_setup_teardown(test, empty_table, empty_table)

UNIT_MAIN(over(held_by_handles_and_mappings), over(several_end_at_once), over(counted_as_attached),
	  over(listed), over(found_and_renamed), over(added_late), over(without_memory),
	  over(without_the_lock))
