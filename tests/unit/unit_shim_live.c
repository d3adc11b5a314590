/* SPDX-License-Identifier: MIT */
/* The tables of pointers and of named cuMemCreate memory that are not plain driver memory, and what
 * a resync overlooks while an entry enters one. */
#include "unit.h"

#include "base/client_held.h"
#include "preload/shim_live.h"

#define STEP ((uint64_t)2 << 20) /* distance between the driver's addresses */
#define ONE ((cu_context)(uintptr_t)16)
#define TWO ((cu_context)(uintptr_t)32)

static struct live entry_of(uint64_t pointer, enum live_kind kind, uint64_t generation)
{
	struct live entry = {.pointer = pointer,
			     .size = 100,
			     .kind = kind,
			     .context = ONE,
			     .mapping = {.pointer = pointer},
			     .generation = generation};

	snprintf(entry.name, sizeof(entry.name), "b%llu", (unsigned long long)generation);
	entry.reading = resync_readings(&live_resync);
	return entry;
}

static struct live object_of(cu_mem_handle handle, uint64_t generation)
{
	struct live entry = entry_of(0, LIVE_OWN_VMM, generation);

	entry.mapping.handle = handle;
	entry.mapping.size = STEP;
	return entry;
}

static void add(uint64_t pointer, enum live_kind kind, uint64_t generation)
{
	const struct live entry = entry_of(pointer, kind, generation);

	assert_true(live_add(&entry));
}

static void add_object(cu_mem_handle handle, uint64_t generation)
{
	const struct live entry = object_of(handle, generation);

	errno = 77;
	assert_true(live_add(&entry));
	assert_int_equal(errno, 77);
}

/* An entry within the mapping that begins at `base`. */
static void add_in(uint64_t base, uint64_t pointer, uint64_t generation)
{
	struct live entry = entry_of(pointer, LIVE_VMM, generation);

	entry.mapping.pointer = base;
	assert_true(live_add(&entry));
}

/* Returns how many entries live_take_of() took out. */
static unsigned int take_of(cu_context context, bool own)
{
	struct live_ended *each = live_take_of(context, own), *next;
	unsigned int count = 0;

	for (; each; each = next, count++) {
		assert_true(each->entry.context == context && live_is_own(&each->entry) == own);
		next = each->next;
		free(each);
	}
	return count;
}

static int empty(void **state)
{
	static const cu_context contexts[] = {ONE, TWO};

	for (int i = 0; i < 4; i++)
		take_of(contexts[i / 2], i % 2);
	for (size_t i = 0; i < LIVE_FILTER_SIZE; i++)
		assert_int_equal(atomic_load(&live_filter[i]), 0);
	assert_false(live_any() || live_any_managed());
	return 0;
}

static uint64_t found(uint64_t base, uint64_t pointer)
{
	struct live out;

	return live_find(base, pointer, &out) ? out.generation : 0;
}

/* `key`: a pointer, or the handle of an object. */
static bool get(uint64_t key, bool object, uint64_t generation, struct live *out_entry)
{
	const struct resync_ref ref = {.key = key, .object = object, .generation = generation};

	return live_get(&ref, out_entry);
}

static bool rename_to(uint64_t key, bool object, uint64_t generation, uint64_t to)
{
	const struct resync_ref ref = {.key = key, .object = object, .generation = generation};

	return live_rename(&ref, to);
}

static unsigned int attached(uint64_t generation)
{
	gpushare_Hold hold = {.generation = generation};

	live_count(&hold);
	return hold.count;
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
	return sum_of(live_count_handles(handle, -1));
}

static uint64_t unmap(cu_deviceptr pointer, size_t size, bool gone)
{
	return sum_of(live_settle_places(live_take_places(pointer, size), gone));
}

static void another_at_the_address_replaces(void **state)
{
	static const enum live_kind kinds[] = {LIVE_OWN, LIVE_IPC, LIVE_VMM};
	struct live out;

	for (size_t old = 0; old < 3; old++) {
		for (size_t now = 0; now < 3; now++) {
			add(STEP, kinds[old], 1);
			add(STEP, kinds[old], 1);
			add(STEP, kinds[now], 2);
			assert_true(live_take(STEP, false, &out));
			/* two names of one memory at one address: each opening is freed once */
			if (kinds[old] == LIVE_IPC && kinds[now] == LIVE_IPC)
				assert_true(live_take(STEP, false, &out) &&
					    live_take(STEP, false, &out));
			else
				assert_true(out.generation == 2 && out.kind == kinds[now]);
			assert_false(live_any());
		}
	}
}

static void neighbours_in_the_filter_are_told_apart(void **state)
{
	uint64_t other = 2 * STEP;
	struct live out;

	while (live_filter_of(other) != live_filter_of(STEP))
		other += STEP;
	add(STEP, LIVE_OWN, 1);
	assert_true(live_maybe(other));
	assert_false(live_take(other, false, &out) || found(other, other));
	add(other, LIVE_OWN, 2);
	assert_true(live_take(STEP, false, &out) && live_maybe(STEP) && live_maybe(other));
	assert_true(!live_take(STEP, false, &out) && live_take(other, false, &out) &&
		    out.generation == 2);
	assert_false(live_maybe(STEP) || live_take(STEP, false, &out) || found(STEP, STEP));
}

/* A buffer inside the driver's mapping is found by the mapping's base. Of several, a pointer
 * belongs to the last that doesn't begin behind it. */
static void found_within_a_mapping(void **state)
{
	struct live out;

	add(STEP, LIVE_OWN, 1);
	assert_int_equal(found(STEP, STEP + 5), 1);
	add_in(40 * STEP, 40 * STEP + 300, 4);
	add_in(40 * STEP, 40 * STEP + 200, 3);
	add_in(40 * STEP, 40 * STEP + 100, 2);
	assert_int_equal(found(40 * STEP, 40 * STEP + 100), 2);
	assert_int_equal(found(40 * STEP, 40 * STEP + 299), 3);
	assert_int_equal(found(40 * STEP, 50 * STEP), 4);
	assert_int_equal(found(40 * STEP, 40 * STEP) + found(41 * STEP, 40 * STEP + 299), 0);
	assert_int_equal(found(STEP, STEP), 1);
	assert_false(live_take(40 * STEP, false, &out));
	add(40 * STEP + 200, LIVE_OWN, 5); /* replaced by one that begins there */
	assert_int_equal(found(40 * STEP, 40 * STEP + 299), 2);
	assert_true(live_take(40 * STEP + 300, false, &out) &&
		    live_take(40 * STEP + 100, false, &out));
	assert_int_equal(found(40 * STEP, 40 * STEP + 299), 0);
	assert_int_equal(found(40 * STEP + 200, 40 * STEP + 200), 5);
}

/* Only a range within one managed buffer is found. */
static void managed_ranges(void **state)
{
	struct live entry = entry_of(8 * STEP, LIVE_OWN_VMM, 1), out;

	entry.managed = true;
	assert_false(live_find_managed(8 * STEP, 1, &out));
	assert_true(live_add(&entry));
	add(9 * STEP, LIVE_OWN, 2);
	assert_false(live_find_managed(8 * STEP - 1, 1, &out) ||
		     live_find_managed(8 * STEP + 100, 1, &out) ||
		     live_find_managed(8 * STEP + 50, 51, &out) ||
		     live_find_managed(9 * STEP, 1, &out));
	assert_true(live_find_managed(8 * STEP + 50, 50, &out) && out.generation == 1);
}

static void a_context_takes_its_own(void **state)
{
	struct live entry = entry_of(9 * STEP, LIVE_OWN, 9);

	entry.context = TWO;
	assert_true(live_add(&entry));
	for (uint64_t i = 1; i <= 4; i++)
		add(i * STEP, i % 2 ? LIVE_OWN : LIVE_OWN_VMM, i);
	add(5 * STEP, LIVE_VMM, 5);
	assert_int_equal(take_of(NULL, true), 0);
	assert_int_equal(take_of(ONE, true), 4);
	assert_false(found(STEP, STEP) || found(2 * STEP, 2 * STEP));
	assert_int_equal(found(5 * STEP, 5 * STEP), 5);
	assert_int_equal(take_of(ONE, false), 1);
	assert_int_equal(take_of(ONE, true) + take_of(ONE, false), 0);
	assert_int_equal(found(9 * STEP, 9 * STEP), 9);
}

/* Another pool may get the handle of one that was destroyed: it doesn't have that one's memory. */
static void a_destroyed_pool_has_nothing(void **state)
{
	const cu_mem_pool pools[] = {(cu_mem_pool)ONE, (cu_mem_pool)TWO};
	struct live entry;

	for (uint64_t i = 0; i < 3; i++) {
		entry = entry_of((i + 1) * STEP, LIVE_OWN_VMM, i);
		entry.pool = pools[i % 2];
		assert_true(live_add(&entry));
	}
	assert_int_equal(live_pooled(pools[0]), 200);
	live_forget_pool(pools[0]);
	assert_int_equal(live_pooled(pools[0]), 0);
	assert_int_equal(live_pooled(pools[1]), 100);
	assert_true(live_find(STEP, STEP, &entry) && !entry.pool);
}

/* Openings of a handle are counted, and only a close undoes one. Together they are one
 * attachment; each attachment by name counts. */
static void what_was_opened_is_closed(void **state)
{
	struct live out;

	add(STEP, LIVE_OPENED, 5);
	add(2 * STEP, LIVE_VMM, 6);
	add(3 * STEP, LIVE_VMM, 5);
	assert_false(live_open_again(6, &out));
	assert_true(live_open_again(5, &out) && out.pointer == STEP && out.count == 2);
	assert_true(attached(5) == 2 && attached(6) == 1 && attached(7) == 0);
	assert_false(live_take(STEP, false, &out) || live_take(2 * STEP, true, &out));
	assert_true(live_take(STEP, true, &out) && out.count == 1);
	assert_true(live_take(STEP, true, &out) && out.count == 0);
	assert_false(live_take(STEP, true, &out) || live_open_again(5, &out));
}

static void by_pointer_and_generation(void **state)
{
	struct live out = {.generation = 99};

	add(STEP, LIVE_OWN, 1);
	assert_false(get(2 * STEP, false, 1, &out) || get(STEP, false, 2, &out));
	assert_false(rename_to(2 * STEP, false, 1, 5) || rename_to(STEP, false, 2, 5));
	assert_int_equal(out.generation, 99);
	assert_true(rename_to(STEP, false, 1, 5) && !get(STEP, false, 1, &out) &&
		    get(STEP, false, 5, &out));
	assert_true(rename_to(STEP, false, 5, 0)); /* now it has no name */
	assert_false(get(STEP, false, 5, &out) || rename_to(STEP, false, 5, 6));
	assert_true(live_find(STEP, STEP, &out) && !out.name[0]);
}

/* One unmapping may cover several mappings, and end several objects. The driver may refuse it. */
static void held_by_handles_and_mappings(void **state)
{
	for (unsigned int i = 0; i < 3; i++) {
		add_object(20 + i, 1u << i);
		live_add_place((i + 1) * STEP, 20 + i);
	}
	live_add_place(9 * STEP, 20);
	live_add_place(8 * STEP, 99); /* a handle of no object */
	live_count_handles(22, 1);
	assert_int_equal(drop(20) + drop(21) + drop(22) + drop(99), 0);
	assert_int_equal(unmap(STEP, 3 * STEP, false), 0); /* the driver refused */
	assert_int_equal(unmap(4 * STEP, STEP, true), 0);  /* nothing is mapped there */
	assert_int_equal(unmap(STEP, 3 * STEP, true), 2);
	assert_int_equal(drop(22), 4);
	assert_int_equal(unmap(9 * STEP, STEP, true), 1);
	assert_false(live_any_object());
}

/* Without a handle, an object is found where it is mapped. */
static void found_and_renamed(void **state)
{
	struct live out = {.generation = 99};

	add_object(51, 1);
	add_object(52, 2);
	live_add_place(3 * STEP, 52);
	live_add_place(2 * STEP, 51);
	assert_false(get(53, true, 1, &out) || get(51, true, 2, &out));
	assert_false(rename_to(53, true, 1, 7) || rename_to(51, true, 2, 7));
	assert_int_equal(out.generation, 99);
	assert_true(rename_to(51, true, 1, 7) && !get(51, true, 1, &out));
	assert_true(get(51, true, 7, &out) && !out.mapping.pointer);
	assert_int_equal(drop(51), 0);
	assert_true(get(51, true, 7, &out) && out.mapping.pointer == 2 * STEP);
	assert_true(rename_to(51, true, 7, 0)); /* now it has no name */
	assert_false(get(51, true, 7, &out) || rename_to(51, true, 7, 8));
	assert_int_equal(drop(52) + unmap(2 * STEP, 2 * STEP, true), 9);
}

/* While an object without a handle is being unmapped, a resync has nothing to export it by. */
static void overlooked_while_it_is_unmapped(void **state)
{
	struct live_places *taken;
	struct live out;

	add_object(71, 1);
	live_add_place(STEP, 71);
	assert_int_equal(drop(71), 0);
	taken = live_take_places(STEP, STEP);
	assert_false(get(71, true, 1, &out));
	resync_missed(&live_resync);
	assert_int_equal(sum_of(live_settle_places(taken, false)), 0); /* the driver refused */
	assert_true(resync_missed(&live_resync));
	assert_true(get(71, true, 1, &out) && out.mapping.pointer == STEP);
	assert_int_equal(unmap(STEP, STEP, true), 1);
}

/* The driver gives a handle again whose end the table has not seen, or is about to see. */
static void replaced(void **state)
{
	struct live first = object_of(81, 1);
	struct live_places *taken;

	first.mapping.held = held_keep(STDIN_FILENO);
	assert_true(first.mapping.held && live_add(&first));
	live_add_place(STEP, 81);
	live_add_place(2 * STEP, 81);
	assert_int_equal(drop(81), 0);
	taken = live_take_places(2 * STEP, STEP);
	add_object(81, 2);
	assert_int_equal(held_open(first.mapping.held), -1);
	assert_int_equal(unmap(STEP, STEP, true), 0);
	assert_int_equal(sum_of(live_settle_places(taken, true)), 0);
	assert_int_equal(drop(81), 2);
	assert_false(live_any_object());
}

/* A resync has read the tables between the answer of the registry and the addition. */
static void added_too_late_for_a_resync(void **state)
{
	struct live object = object_of(61, 1), entry = entry_of(STEP, LIVE_OWN, 2), out;

	resync_missed(&live_resync);
	assert_true(live_add(&object) && live_add(&entry) && !resync_missed(&live_resync));
	assert_true(live_take(STEP, false, &out) && drop(61) == 1);
	atomic_fetch_add(&live_resync.readings, 2);
	assert_true(live_add(&object) && resync_missed(&live_resync));
	assert_true(live_add(&entry) && resync_missed(&live_resync));
	assert_true(live_take(STEP, false, &out) && drop(61) == 1);
}

#define EMPTIED(test) cmocka_unit_test_teardown(test, empty)
UNIT_MAIN(EMPTIED(another_at_the_address_replaces),
	  EMPTIED(neighbours_in_the_filter_are_told_apart), EMPTIED(found_within_a_mapping),
	  EMPTIED(managed_ranges), EMPTIED(a_context_takes_its_own),
	  EMPTIED(a_destroyed_pool_has_nothing), EMPTIED(what_was_opened_is_closed),
	  EMPTIED(by_pointer_and_generation), UNIT(held_by_handles_and_mappings),
	  UNIT(found_and_renamed), UNIT(overlooked_while_it_is_unmapped), UNIT(replaced),
	  UNIT(added_too_late_for_a_resync))
