/* SPDX-License-Identifier: MIT */
/* The table of pointers that are not plain driver memory, also without memory for itself. */
#include "unit.h"

static _Thread_local unsigned int mallocs_left = -1u; /* then malloc fails */

static void *short_malloc(size_t size)
{
	if (!mallocs_left)
		return NULL;
	mallocs_left--;
	return malloc(size);
}

#define malloc short_malloc
#include "preload/shim_live.c"
#undef malloc

#define STEP 512 /* distance between the driver's addresses */

static struct live entry_of(uint64_t pointer, enum live_kind kind, uint64_t generation)
{
	struct live entry = {.pointer = pointer,
			     .size = 100,
			     .kind = kind,
			     .mapping = {.pointer = pointer},
			     .generation = generation};

	snprintf(entry.name, sizeof(entry.name), "b%llu", (unsigned long long)generation);
	return entry;
}

static bool add(uint64_t pointer, enum live_kind kind, uint64_t generation)
{
	const struct live entry = entry_of(pointer, kind, generation);

	return live_add(&entry);
}

static int empty_table(void **state)
{
	struct node *node, *next;

	mallocs_left = -1u;
	HASH_ITER (hh, table.nodes, node, next) {
		take_out(node);
		free(node);
	}
	for (size_t i = 0; i < LIVE_FILTER_SIZE; i++)
		assert_int_equal(atomic_load(&live_filter[i]), 0);
	assert_int_equal(table.shifted, 0);
	assert_false(live_any());
	return 0;
}

static void added_and_taken_once(void **state)
{
	struct live out = {.pointer = 7};

	assert_false(live_any() || live_maybe(STEP) || live_take(STEP, &out) ||
		     live_find(STEP, STEP, &out));
	assert_int_equal(out.pointer, 7);
	assert_true(add(STEP, LIVE_OWN, 1));
	assert_true(live_any() && live_maybe(STEP));
	assert_true(live_find(STEP, STEP, &out));
	assert_string_equal(out.name, "b1");
	assert_true(live_take(STEP, &out));
	assert_true(out.generation == 1 && out.count == 0);
	assert_false(live_any() || live_maybe(STEP) || live_take(STEP, &out));
}

/* The driver returns the same address for the same buffer, and counts. */
static void the_same_buffer_again_is_counted(void **state)
{
	struct live out;

	for (unsigned int i = 0; i < 3; i++)
		assert_true(add(STEP, LIVE_IPC, 5));
	for (unsigned int left = 3; left--;) {
		assert_true(live_take(STEP, &out));
		assert_int_equal(out.count, left);
	}
	assert_false(live_any() || live_take(STEP, &out));
}

static void another_at_the_address_replaces(void **state)
{
	static const enum live_kind kinds[] = {LIVE_OWN, LIVE_IPC, LIVE_VMM};
	struct live out;

	for (size_t old = 0; old < 3; old++)
		for (size_t now = 0; now < 3; now++) {
			assert_true(add(STEP, kinds[old], 1) && add(STEP, kinds[old], 1));
			assert_true(add(STEP, kinds[now], 2));
			assert_true(live_take(STEP, &out));
			/* two names of one memory at one address: each opening is freed once */
			if (kinds[old] == LIVE_IPC && kinds[now] == LIVE_IPC) {
				assert_true(live_take(STEP, &out) && live_take(STEP, &out));
				assert_false(live_any());
				continue;
			}
			assert_true(out.generation == 2 && out.kind == kinds[now] && !out.count);
			assert_false(live_any());
		}
	/* the same generation as another kind is no second attachment either */
	assert_true(add(STEP, LIVE_OWN, 1) && add(STEP, LIVE_IPC, 1) && live_take(STEP, &out));
	assert_false(live_any());
}

static void neighbours_in_the_filter_are_told_apart(void **state)
{
	uint64_t other = 2 * STEP;
	struct live out;

	while (live_filter_of(other) != live_filter_of(STEP))
		other += STEP;
	assert_true(add(STEP, LIVE_OWN, 1));
	assert_true(live_maybe(other));
	assert_false(live_take(other, &out) || live_find(other, other, &out));
	assert_true(add(other, LIVE_OWN, 2) && live_take(STEP, &out));
	assert_true(live_maybe(STEP) && live_maybe(other) && !live_take(STEP, &out));
	assert_true(live_take(other, &out) && out.generation == 2);
	assert_false(live_maybe(STEP));
}

static void many(void **state)
{
	struct live out;

	for (uint64_t i = 1; i <= 5000; i++)
		assert_true(add(i * STEP, LIVE_OWN, i));
	for (uint64_t i = 5000; i; i--)
		assert_true(live_take(i * STEP, &out) && out.generation == i);
	assert_false(live_any());
}

/* A buffer inside the driver's mapping is found by the mapping's base too. */
static void a_shifted_one_is_found_by_its_base(void **state)
{
	struct live shifted = entry_of(40 * STEP + 100, LIVE_IPC, 3), out;
	const uint64_t base = 40 * STEP, inside = base + 100;

	shifted.mapping.pointer = base;
	assert_true(add(STEP, LIVE_OWN, 1) && live_add(&shifted));
	assert_true(live_find(base, inside, &out) && out.generation == 3);
	assert_true(live_find(base, inside + 7, &out) && out.generation == 3);
	/* memory before it in the mapping is not part of it */
	assert_false(live_find(base, base, &out) || live_find(41 * STEP, inside, &out));
	assert_false(live_take(base, &out));
	/* replaced by one that is not shifted, and back */
	assert_true(add(inside, LIVE_OWN, 4));
	assert_false(live_find(base, inside, &out));
	assert_true(live_take(inside, &out));
	assert_true(live_add(&shifted) && live_find(base, inside, &out) && out.generation == 3);
	assert_true(live_take(inside, &out));
	assert_false(live_find(base, inside, &out));
	assert_int_equal(table.shifted, 0);
}

static void a_context_takes_its_own(void **state)
{
	cu_context one = (cu_context)(uintptr_t)16, two = (cu_context)(uintptr_t)32;
	struct live entry, out;

	for (uint64_t i = 1; i <= 6; i++) {
		entry = entry_of(i * STEP, LIVE_OWN, i);
		entry.context = i % 2 ? one : two;
		assert_true(live_add(&entry));
	}
	entry = entry_of(9 * STEP, LIVE_IPC, 9);
	entry.context = one;
	assert_true(live_add(&entry) && live_add(&entry));
	for (unsigned int i = 0, seen = 0; i < 4; i++) {
		/* three are the context's own memory, the fourth is the attachment */
		assert_true(live_take_of(one, i < 3, &out));
		assert_ptr_equal(out.context, one);
		assert_int_equal(out.count, out.generation == 9 ? 2 : 1);
		assert_false(seen & 1u << out.generation);
		seen |= 1u << out.generation;
	}
	assert_false(live_take_of(one, true, &out) || live_take_of(one, false, &out) ||
		     live_take_of(NULL, true, &out));
	assert_true(live_take_of(two, true, &out) && live_take_of(two, true, &out) &&
		    live_take_of(two, true, &out));
	assert_false(live_any());
}

/* Openings of a handle are counted, and only a close undoes one. */
static void what_was_opened_is_closed(void **state)
{
	struct live out;

	assert_false(live_open_again(5, &out));
	assert_true(add(STEP, LIVE_OPENED, 5) && add(2 * STEP, LIVE_VMM, 6) &&
		    add(3 * STEP, LIVE_VMM, 5));
	assert_false(live_open_again(6, &out));
	assert_true(live_open_again(5, &out) && out.pointer == STEP && out.count == 2);
	assert_false(live_take(STEP, &out) || live_take_opened(2 * STEP, &out));
	assert_true(live_take_opened(STEP, &out) && out.count == 1);
	assert_true(live_take_opened(STEP, &out) && out.count == 0);
	assert_false(live_take_opened(STEP, &out) || live_open_again(5, &out));
	assert_true(live_take(2 * STEP, &out) && live_take(3 * STEP, &out));
	assert_false(live_any());
}

/* Mapped memory loses its name before its context ends, and is freed after it. */
static void a_mapped_one_loses_its_name_first(void **state)
{
	cu_context one = (cu_context)(uintptr_t)16;
	struct live entry, out;

	for (uint64_t i = 1; i <= 3; i++) {
		entry = entry_of(i * STEP, i == 3 ? LIVE_VMM : LIVE_OWN_VMM, i);
		entry.context = one;
		assert_true(live_add(&entry));
	}
	assert_false(live_take_of(one, true, &out) || live_unname_of(NULL, &out));
	for (int i = 0; i < 2; i++) {
		assert_true(live_unname_of(one, &out) && out.kind == LIVE_OWN_VMM &&
			    out.name[0] == 'b');
		assert_true(live_find(out.pointer, out.pointer, &entry) && !entry.name[0]);
	}
	assert_false(live_unname_of(one, &out));
	for (int i = 0; i < 3; i++)
		assert_true(live_take_of(one, false, &out) &&
			    !!out.name[0] == (out.generation == 3));
	assert_false(live_any());
}

/* malloc fails at each point of an addition: nothing is half added, and older entries stay. */
static void without_memory(void **state)
{
	struct live out;
	unsigned int enough;

	for (enough = 0;; enough++) {
		mallocs_left = enough;
		if (add(STEP, LIVE_IPC, 1))
			break;
		assert_false(live_any() || live_maybe(STEP) || live_take(STEP, &out));
	}
	assert_true(enough >= 2); /* the node and the table */
	mallocs_left = 0;
	assert_false(add(STEP, LIVE_IPC, 1) || add(2 * STEP, LIVE_OWN, 2));
	assert_true(live_find(STEP, STEP, &out) && out.count == 1 && !live_maybe(2 * STEP));
	/* the only entry is replaced, which needs no new table */
	mallocs_left = 1;
	assert_true(add(STEP, LIVE_IPC, 1));
	mallocs_left = 1;
	assert_true(live_find(STEP, STEP, &out) && out.count == 2);
	assert_true(live_take(STEP, &out) && live_take(STEP, &out) && !live_any());
}

#define EACH 2000

static void *come_and_go(void *number)
{
	uint64_t pointer = ((uint64_t)(uintptr_t)number + 1) * STEP;
	uintptr_t failures = 0;
	struct live out;

	for (uint64_t i = 1; i <= EACH; i++) {
		failures += !add(pointer, LIVE_OWN, i);
		failures += !live_maybe(pointer);
		failures += !live_take(pointer, &out) || out.generation != i;
	}
	return (void *)failures;
}

static void four_threads(void **state)
{
	pthread_t threads[4];
	void *failures;

	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failures);
		assert_null(failures);
	}
	assert_false(live_any());
}

#define EMPTIED(test) cmocka_unit_test_teardown(test, empty_table)
UNIT_MAIN(EMPTIED(added_and_taken_once), EMPTIED(the_same_buffer_again_is_counted),
	  EMPTIED(another_at_the_address_replaces),
	  EMPTIED(neighbours_in_the_filter_are_told_apart), EMPTIED(many),
	  EMPTIED(a_shifted_one_is_found_by_its_base), EMPTIED(a_context_takes_its_own),
	  EMPTIED(what_was_opened_is_closed), EMPTIED(a_mapped_one_loses_its_name_first),
	  EMPTIED(without_memory), EMPTIED(four_threads))
