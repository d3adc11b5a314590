/* SPDX-License-Identifier: MIT */
/* The state alone: what it emits of each change, and that what it counts is what it holds. */
#include "unit.h"

#include "os/clock.h"
#include "state/buffer.h"

static struct state state;
static struct session *owner, *other;
static enum change_kind heard[16];
static unsigned int count; /* of these */
static enum departure how; /* the latest */

static void hear(void *context, const struct change *change)
{
	assert_ptr_equal(context, &count);
	assert_in_range(count, 0, 15);
	heard[count++] = change->kind;
	how = change->how;
}

#define HEARD(...) \
	do { \
		const enum change_kind expected[] = {__VA_ARGS__}; \
		assert_int_equal(count, sizeof(expected) / sizeof(*expected)); \
		assert_memory_equal(heard, expected, sizeof(expected)); \
		count = 0; \
	} while (0)

static struct session *connected(uint32_t id, int32_t pid)
{
	struct process process = {.pid = pid, .uid = 1000, .started = 1};

	return state_connect(&state, id, &process);
}

static int set_up(void **unused)
{
	state_init(&state);
	state.now_ns = 100 * NS_PER_S;
	state.observe = hear;
	state.context = &count;
	count = 0;
	owner = connected(1, 10);
	other = connected(2, 20);
	return !owner || !other;
}

static void leave(struct session *session)
{
	state_leave(&state, session);
	assert_int_equal(heard[count - 1], CHANGE_LEAVE);
	while (state_end_one(&state, session))
		;
	state_free_session(&state, session);
}

/* Nothing is left, and nobody is charged for anything. */
static int tear_down(void **unused)
{
	while (state.sessions.by_id) {
		count = 0;
		leave(state.sessions.by_id);
	}
	state.observe = NULL;
	while (buffer_next_kept(&state, NULL))
		buffer_remove(&state, buffer_next_kept(&state, NULL), DEPARTURE_EXPIRED);
	for (int what = 0; what < LIMIT_KINDS; what++)
		assert_int_equal(state.users.total.held[what], 0);
	assert_int_equal(state.store.count + state.store.nameless, 0);
	assert_null(state.store.generations.root);
	for (int i = 0; i < COUNTS_BACKINGS; i++) {
		assert_int_equal(state.users.total.named[i].count, 0);
		assert_int_equal(state.users.total.deferred[i].count, 0);
		assert_int_equal(state.users.total.named[i].bytes, 0);
		assert_int_equal(state.users.total.deferred[i].bytes, 0);
	}
	state_finish(&state);
	return 0;
}

static struct entry *add(const char *name, uint32_t flags, uint32_t ttl_s)
{
	const uint8_t handle[GPUSHARE_HANDLE_SIZE] = {1};
	record info = {.size = 8, .base_size = 8, .flags = flags, .ttl_s = ttl_s};
	struct entry *entry;

	strcpy(info.name, name);
	info.backing = GPUSHARE_BACKING_IPC;
	entry = buffer_add(&state, owner, &info, handle, 0);
	assert_non_null(entry);
	return entry;
}

static void attach(struct entry *entry, unsigned int times)
{
	assert_non_null(
	    buffer_attach(&state, other, entry->info.name, entry->info.generation, times));
}

static void detach(struct entry *entry)
{
	buffer_detach(&state, other, session_find_generation(other, entry->info.generation), 1);
}

/* The session that ended last goes first; one that takes long lets the others go before its rest. */
static void sessions_end_in_turns(void **unused)
{
	struct session *large = owner, *small;

	add("a", 0, 0);
	add("b", 0, 0);
	owner = small = connected(3, 30);
	add("c", 0, 0);
	count = 0;
	state_leave(&state, large);
	state_leave(&state, small);
	assert_ptr_equal(state.ending, small);
	assert_true(state_end_one(&state, small));
	assert_false(state_end_one(&state, small));
	state_free_session(&state, small);
	assert_ptr_equal(state.ending, large);
	count = 0;
	assert_true(state_end_one(&state, large));
	state_leave(&state, other);
	assert_ptr_equal(state.ending, other);
	state_end_others(&state);
	assert_ptr_equal(state.ending, large);
	state_end_others(&state);
	assert_ptr_equal(state.ending, other);
	assert_false(state_end_one(&state, other));
	state_free_session(&state, other);
	assert_true(state_end_one(&state, large));
	state_free_session(&state, large);
}

static void a_buffer_comes_and_goes(void **unused)
{
	struct entry *entry = add("x", 0, 0);
	uint64_t generation = entry->info.generation;

	HEARD(CHANGE_SHARE);
	assert_ptr_equal(store_find(&state.store, "x"), entry);
	assert_ptr_equal(buffer_find(&state, "x", generation), entry);
	assert_null(buffer_find(&state, "y", generation));
	attach(entry, 2);
	HEARD(CHANGE_ATTACH);
	attach(entry, 2); /* nothing has changed */
	assert_int_equal(count, 0);
	assert_int_equal(entry->info.attachers, 2);
	detach(entry);
	HEARD(CHANGE_DETACH);
	buffer_remove(&state, entry, DEPARTURE_WITHDRAWN);
	HEARD(CHANGE_REMOVE);
	assert_int_equal(how, DEPARTURE_WITHDRAWN);
	assert_true(buffer_has_gone(&state, "x", generation));
	assert_int_equal(state.users.total.held[LIMIT_attachments], 1); /* to what has gone */
}

static void a_free_is_deferred(void **unused)
{
	struct entry *entry = add("x", 0, 0);
	uint64_t generation = entry->info.generation;

	attach(entry, 1);
	count = 0;
	buffer_defer(&state, entry, DEPARTURE_WITHDRAWN, false);
	HEARD(CHANGE_DEFER);
	assert_null(store_find(&state.store, "x"));
	assert_ptr_equal(store_find_deferred(&state.store, generation), entry);
	assert_true(entry->info.deferred);
	add("x", 0, 0); /* the name is free */
	assert_ptr_equal(buffer_find(&state, "x", generation), entry);
	count = 0;
	detach(entry);
	HEARD(CHANGE_DETACH);
	assert_int_equal(entry->info.attachers, 0);
	buffer_end(&state, entry);
	HEARD(CHANGE_FREE);
	assert_null(buffer_find(&state, "x", generation));
}

static void its_owner_brings_it_back(void **unused)
{
	struct entry *entry = add("x", 0, 0);
	uint64_t generation = entry->info.generation;
	const uint8_t handle[GPUSHARE_HANDLE_SIZE] = {2};
	record info = {.name = "x", .size = 8, .base_size = 8, .backing = GPUSHARE_BACKING_IPC};

	attach(entry, 3);
	count = 0;
	buffer_defer(&state, entry, DEPARTURE_WITHDRAWN, true);
	assert_true(entry->unsynced && !entry->info.deferred);
	assert_true(buffer_revive(&state, entry, &info, handle));
	HEARD(CHANGE_DEFER, CHANGE_SHARE);
	assert_ptr_equal(store_find(&state.store, "x"), entry);
	assert_int_equal(entry->info.generation, generation);
	assert_int_equal(entry->info.attachers, 3);
	assert_int_equal(entry->handle[0], 2);
	assert_false(entry->unsynced);
}

static void what_is_kept_comes_by_deadline(void **unused)
{
	struct entry *never = add("never", GPUSHARE_FLAG_KEEP, 0);
	struct entry *late = add("late", GPUSHARE_FLAG_KEEP, 20);
	struct entry *soon = add("soon", GPUSHARE_FLAG_KEEP, 10);

	add("plain", 0, 0);
	count = 0;
	leave(owner);
	HEARD(CHANGE_LEAVE, CHANGE_ORPHAN, CHANGE_ORPHAN, CHANGE_ORPHAN, CHANGE_REMOVE);
	assert_ptr_equal(buffer_next_kept(&state, NULL), soon);
	assert_ptr_equal(buffer_next_kept(&state, soon), late);
	assert_ptr_equal(buffer_next_kept(&state, late), never);
	assert_null(buffer_next_kept(&state, never));
	assert_true(soon->deadline_ns == 110 * NS_PER_S && never->deadline_ns == INT64_MAX);
	buffer_return(&state, soon, other);
	HEARD(CHANGE_RETURN);
	assert_ptr_equal(buffer_next_kept(&state, NULL), late);
	assert_true(soon->deadline_ns == INT64_MAX);
}

static void what_is_missing_is_lost_with_the_last_attacher(void **unused)
{
	struct entry *entry = add("x", GPUSHARE_FLAG_KEEP, 0);

	entry->info.missing = true;
	attach(entry, 1);
	count = 0;
	buffer_orphan(&state, entry);
	HEARD(CHANGE_ORPHAN);
	detach(entry);
	HEARD(CHANGE_DETACH, CHANGE_REMOVE);
	assert_int_equal(how, DEPARTURE_LOST);
	assert_false(buffer_has_gone(&state, "x", UINT64_MAX)); /* it may come back */
}

#define STATE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(STATE(sessions_end_in_turns), STATE(a_buffer_comes_and_goes), STATE(a_free_is_deferred),
	  STATE(its_owner_brings_it_back), STATE(what_is_kept_comes_by_deadline),
	  STATE(what_is_missing_is_lost_with_the_last_attacher))
