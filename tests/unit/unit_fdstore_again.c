/* SPDX-License-Identifier: MIT */
/* Keepers that are killed, hang, or are somebody's no more: what they had is put again. */
#include "unit.h"

#include <signal.h>
#include <unistd.h>

#include "raw.h"
#include "shelf.h"
#include "stopped.h"

static void put_three(struct fdstore *store)
{
	shelf_put(store, 1, 3);
}

/* Its pid, once it has been missed, and has all that is owed it. */
static pid_t successor_of(pid_t keeper, struct fdstore *store)
{
	long long begin = raw_now_ms();
	int64_t next;
	pid_t pid;

	do {
		assert_in_range(raw_now_ms() - begin, 0, RAW_TIMEOUT_MS);
		raw_sleep_ms(5);
		next = fdstore_tick(store);
		pid = shelf_keeper();
	} while (!pid || pid == keeper || next != INT64_MAX);
	return pid;
}

static void a_killed_keeper_has_a_successor(void **state)
{
	struct fdstore *store;
	int fds[300];
	pid_t keeper, next;

	(void)state;
	shelf_needs_keeper();
	store = shelf_reopen(NULL);
	for (int i = 0; i < 300; i++) {
		fds[i] = shelf_make((uint64_t)i);
		assert_true(fdstore_put(store, (uint64_t)i, fds[i]));
	}
	keeper = shelf_keeper();
	fdstore_drop(store, 0);
	kill(keeper, SIGKILL);
	next = successor_of(keeper, store);
	shelf_await_kept(next, 299);
	/* and where it is asked for something before anybody looked */
	kill(next, SIGKILL);
	fdstore_put(store, 0, fds[0]);
	shelf_await_kept(successor_of(next, store), 300);
	store = shelf_reopen(store);
	shelf_take(store, 0, 300);
	for (int i = 0; i < 300; i++)
		close(fds[i]);
	shelf_finish(store);
}

/* Which nobody should do; the others are none the worse for it. */
static void one_that_was_closed_harms_no_other(void **state)
{
	struct fdstore *store;
	pid_t keeper;
	int fd = shelf_make(1), closed = shelf_make(2);

	(void)state;
	shelf_needs_keeper();
	store = shelf_reopen(NULL);
	assert_true(fdstore_put(store, 2, closed));
	assert_true(fdstore_put(store, 1, fd));
	keeper = shelf_keeper();
	close(closed);
	kill(keeper, SIGKILL);
	shelf_await_kept(successor_of(keeper, store), 1);
	assert_true(fdstore_put(store, 3, fd));
	fdstore_drop(store, 2);
	shelf_await_kept(shelf_keeper(), 2);
	store = shelf_reopen(store);
	shelf_take(store, 1, 1);
	shelf_take_none(store, 2, 1);
	close(fd);
	shelf_finish(store);
}

/* Its socket is what a predecessor's keeper left, or it hangs and does not answer. */
static void a_dead_or_hanging_keeper_is_nobodys(void **state)
{
	struct fdstore *store;
	long long begin;
	pid_t keeper;
	int fd = shelf_make(9);

	(void)state;
	shelf_needs_keeper();
	shelf_killed(put_three);
	keeper = shelf_keeper();
	kill(keeper, SIGKILL);
	shelf_await_end(keeper, 1000);
	assert_int_equal(access(shelf_path("keeper.sock"), F_OK), 0);
	store = shelf_reopen(NULL);
	shelf_take_none(store, 1, 3);
	assert_true(fdstore_put(store, 9, fd));
	keeper = shelf_keeper();
	assert_true(stopped(keeper));
	begin = raw_now_ms();
	store = shelf_reopen(store);
	assert_in_range(raw_now_ms() - begin, 500, 2500 + raw_slack_ms());
	shelf_take_none(store, 9, 1);
	assert_true(fdstore_put(store, 9, fd));
	assert_int_not_equal(shelf_keeper(), keeper);
	assert_int_not_equal(shelf_keeper(), 0);
	kill(keeper, SIGCONT);
	shelf_await_end(keeper, 1000);
	shelf_await_kept(shelf_keeper(), 1);
	close(fd);
	shelf_finish(store);
}

#define with_shelf(test) cmocka_unit_test_setup_teardown(test, shelf_set_up, shelf_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    with_shelf(a_killed_keeper_has_a_successor),
	    with_shelf(one_that_was_closed_harms_no_other),
	    with_shelf(a_dead_or_hanging_keeper_is_nobodys),
	};

	return shelf_main(argc, argv, tests);
}
