/* SPDX-License-Identifier: MIT */
/* The table of named cuMemCreate memory, and what a resync overlooks while an entry enters a
 * table. */
#include "unit.h"

#include <unistd.h>

#include "base/client_held.h"
#include "preload/shim_live.h"

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
	assert_true(live_add(&entry));
	assert_int_equal(errno, 77);
}

/* The sum of the generations of the list's objects. */
static uint64_t sum_of(struct live_ended *ended)
{
	uint64_t sum = 0;

	for (const struct live_ended *each = ended; each; each = each->next)
		sum += each->entry.generation;
	live_free_ended(ended);
	return sum;
}

static uint64_t drop(cu_mem_handle handle)
{
	return sum_of(live_drop_handle(handle));
}

static uint64_t unmap(cu_deviceptr pointer, size_t size, bool gone)
{
	return sum_of(live_settle_places(live_take_places(pointer, size), gone));
}

static unsigned int attached(uint64_t generation)
{
	gpushare_Hold hold = {.generation = generation};

	live_count(&hold);
	return hold.count;
}

static bool get(cu_mem_handle handle, uint64_t generation, struct live *out_entry)
{
	const struct resync_ref ref = {.key = handle, .object = true, .generation = generation};

	return live_get(&ref, out_entry);
}

static bool rename_to(cu_mem_handle handle, uint64_t generation, uint64_t to)
{
	const struct resync_ref ref = {.key = handle, .object = true, .generation = generation};

	return live_rename(&ref, to);
}

/* One unmapping may cover several mappings, and end several objects. The driver may refuse it. */
static void held_by_handles_and_mappings(void **state)
{
	for (unsigned int i = 0; i < 3; i++) {
		add(20 + i, 1u << i, LIVE_OWN_VMM);
		live_add_place((i + 1) * STEP, 20 + i);
	}
	live_add_place(9 * STEP, 20);
	live_add_place(8 * STEP, 99); /* a handle of no object */
	live_add_handle(22);
	assert_int_equal(drop(20) + drop(21) + drop(22) + drop(99), 0);
	assert_int_equal(unmap(STEP, 3 * STEP, false), 0); /* the driver refused */
	assert_int_equal(unmap(4 * STEP, STEP, true), 0);  /* nothing is mapped there */
	assert_int_equal(unmap(STEP, 3 * STEP, true), 2);
	assert_int_equal(drop(22), 4);
	assert_int_equal(unmap(9 * STEP, STEP, true), 1);
	assert_false(live_any_object());
}

static void counted_as_attached(void **state)
{
	add(31, 5, LIVE_VMM);
	add(32, 5, LIVE_VMM);
	add(33, 5, LIVE_OWN_VMM);
	add(34, 6, LIVE_VMM);
	assert_true(attached(5) == 2 && attached(6) == 1 && attached(7) == 0);
	assert_int_equal(drop(31) + drop(32) + drop(33) + drop(34), 21);
	assert_int_equal(attached(5), 0);
}

/* Without a handle, an object is found where it is mapped. */
static void found_and_renamed(void **state)
{
	struct live out = {.generation = 99};

	add(51, 1, LIVE_OWN_VMM);
	add(52, 2, LIVE_OWN_VMM);
	live_add_place(3 * STEP, 52);
	live_add_place(2 * STEP, 51);
	assert_false(get(53, 1, &out) || get(51, 2, &out));
	assert_false(rename_to(53, 1, 7) || rename_to(51, 2, 7));
	assert_int_equal(out.generation, 99);
	assert_true(rename_to(51, 1, 7) && !get(51, 1, &out));
	assert_true(get(51, 7, &out) && !out.mapping.pointer);
	assert_int_equal(drop(51), 0);
	assert_true(get(51, 7, &out) && out.mapping.pointer == 2 * STEP);
	assert_true(rename_to(51, 7, 0)); /* now it has no name */
	assert_false(get(51, 7, &out) || rename_to(51, 7, 8));
	assert_int_equal(drop(52) + unmap(2 * STEP, 2 * STEP, true), 9);
}

/* While an object without a handle is being unmapped, a resync has nothing to export it by. */
static void overlooked_while_it_is_unmapped(void **state)
{
	struct live_places *taken;
	struct live out;

	add(71, 1, LIVE_OWN_VMM);
	live_add_place(STEP, 71);
	assert_int_equal(drop(71), 0);
	taken = live_take_places(STEP, STEP);
	assert_false(get(71, 1, &out));
	resync_missed(&live_resync);
	assert_int_equal(sum_of(live_settle_places(taken, false)), 0); /* the driver refused */
	assert_true(resync_missed(&live_resync));
	assert_true(get(71, 1, &out) && out.mapping.pointer == STEP);
	assert_int_equal(unmap(STEP, STEP, true), 1);
}

/* The driver gives a handle again whose end the table has not seen, or is about to see. */
static void replaced(void **state)
{
	struct live first = entry_of(81, 1, LIVE_OWN_VMM);
	struct live_places *taken;

	first.mapping.held = held_keep(STDIN_FILENO);
	assert_true(first.mapping.held && live_add(&first));
	live_add_place(STEP, 81);
	live_add_place(2 * STEP, 81);
	assert_int_equal(drop(81), 0);
	taken = live_take_places(2 * STEP, STEP);
	add(81, 2, LIVE_OWN_VMM);
	assert_int_equal(held_open(first.mapping.held), -1);
	assert_int_equal(unmap(STEP, STEP, true), 0);
	assert_int_equal(sum_of(live_settle_places(taken, true)), 0);
	assert_int_equal(drop(81), 2);
	assert_false(live_any_object());
}

/* A resync has read the tables between the answer of the registry and the addition. */
static void added_too_late_for_a_resync(void **state)
{
	struct live object = entry_of(61, 1, LIVE_OWN_VMM), entry = entry_of(0, 2, LIVE_OWN), out;

	entry.pointer = STEP;
	resync_missed(&live_resync);
	assert_true(live_add(&object) && live_add(&entry) && !resync_missed(&live_resync));
	assert_true(live_take(STEP, &out) && drop(61) == 1);
	atomic_fetch_add(&live_resync.readings, 2);
	assert_true(live_add(&object) && resync_missed(&live_resync));
	assert_true(live_add(&entry) && resync_missed(&live_resync));
	assert_true(live_take(STEP, &out) && drop(61) == 1);
}

UNIT_MAIN(UNIT(held_by_handles_and_mappings), UNIT(counted_as_attached), UNIT(found_and_renamed),
	  UNIT(overlooked_while_it_is_unmapped), UNIT(replaced), UNIT(added_too_late_for_a_resync))
