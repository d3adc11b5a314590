/* SPDX-License-Identifier: MIT */
/* What outlives a registry that is killed, and what doesn't: with real keepers. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "raw.h"
#include "shelf.h"
#include "stopped.h"

static void put_three(struct fdstore *store)
{
	shelf_put(store, 1, 3);
}

static void what_was_put_outlives_a_kill(void **state)
{
	struct fdstore *store;

	(void)state;
	shelf_needs_keeper();
	shelf_killed(put_three);
	store = shelf_reopen(NULL);
	shelf_take_none(store, 4, 1);
	shelf_take_none(store, 0, 1);
	shelf_take(store, 1, 3);
	store = shelf_reopen(store); /* it stayed there */
	shelf_take(store, 1, 3);
	shelf_finish(store);
}

static void put_and_drop(struct fdstore *store)
{
	shelf_put(store, 1, 6);
	fdstore_drop(store, 2);
	fdstore_flush(store);
	fdstore_drop(store, 5);
	fdstore_flush(store);
	fdstore_drop(store, 5);
	fdstore_flush(store);
	fdstore_drop(store, 77);
	fdstore_flush(store);
	shelf_put(store, 5, 1);
}

static void what_was_dropped_is_not_there(void **state)
{
	struct fdstore *store;

	(void)state;
	shelf_needs_keeper();
	shelf_killed(put_and_drop);
	store = shelf_reopen(NULL);
	shelf_take_none(store, 2, 1);
	shelf_take(store, 1, 1);
	shelf_take(store, 3, 4);
	shelf_await_kept(shelf_keeper(), 5);
	shelf_finish(store);
}

static void what_nobody_takes_goes(void **state)
{
	struct fdstore *store;
	pid_t keeper;

	(void)state;
	shelf_needs_keeper();
	shelf_killed(put_three);
	keeper = shelf_keeper();
	store = shelf_reopen(NULL);
	shelf_take(store, 2, 1);
	fdstore_settle(store);
	shelf_take_none(store, 1, 3);
	shelf_await_kept(keeper, 1);
	store = shelf_reopen(store);
	shelf_take_none(store, 1, 1);
	shelf_take_none(store, 3, 1);
	shelf_take(store, 2, 1);
	fdstore_drop(store, 2);
	fdstore_flush(store);
	shelf_await_kept(keeper, 0);
	fdstore_close(store, true);
	shelf_await_end(keeper, 1000); /* nothing to keep, nobody to keep it for */
}

static void put_a_thousand(struct fdstore *store)
{
	shelf_put(store, UINT64_MAX - 1000, 1000);
}

static void a_thousand_outlive_it(void **state)
{
	struct fdstore *store;
	long long begin;

	(void)state;
	shelf_needs_keeper();
	shelf_killed(put_a_thousand);
	begin = raw_now_ms();
	store = shelf_reopen(NULL);
	assert_in_range(raw_now_ms() - begin, 0, 1000 + raw_slack_ms());
	shelf_take(store, UINT64_MAX - 1000, 1000);
	assert_int_equal(shelf_kept(shelf_keeper()), 1000);
	shelf_finish(store);
}

static void stop_and_put(struct fdstore *store)
{
	shelf_put(store, 1, 1);
	assert_true(stopped(shelf_keeper()));
	shelf_put(store, 2, 100);
	for (uint64_t generation = 1; generation < 50; generation++)
		fdstore_drop(store, generation);
	fdstore_flush(store);
}

/* What the one who was killed had said comes first, whoever asks next. */
static void what_waits_in_the_socket_is_not_lost(void **state)
{
	struct fdstore *store;
	pid_t keeper;

	(void)state;
	shelf_needs_keeper();
	shelf_killed(stop_and_put);
	keeper = 0;
	for (int i = 0; i < 3; i++) { /* and among others who come and go */
		int fd = shelf_dial();
		struct ucred ucred;
		socklen_t size = sizeof(ucred);

		assert_true(fd >= 0);
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size);
		keeper = ucred.pid;
		close(fd);
	}
	kill(keeper, SIGCONT);
	store = shelf_reopen(NULL);
	shelf_take_none(store, 1, 49);
	shelf_take(store, 50, 52);
	shelf_finish(store);
}

/* More than its socket takes: it is sent when the keeper can take it. */
static void a_busy_keeper_gets_it_later(void **state)
{
	struct fdstore *store;
	long long begin;
	pid_t keeper;
	int fd;

	(void)state;
	shelf_needs_keeper();
	store = shelf_reopen(NULL);
	assert_int_equal(fdstore_tick(store), INT64_MAX);
	fd = shelf_make(1);
	assert_true(fdstore_put(store, 1, fd));
	keeper = shelf_keeper();
	assert_true(stopped(keeper));
	begin = raw_now_ms();
	for (uint64_t generation = 2; generation < 15000; generation++)
		assert_true(fdstore_put(store, generation, fd));
	assert_true(fdstore_tick(store) < INT64_MAX);
	for (uint64_t generation = 2; generation < 14999; generation++)
		fdstore_drop(store, generation);
	fdstore_flush(store);
	assert_in_range(raw_now_ms() - begin, 0, 2000 + 10 * raw_slack_ms());
	kill(keeper, SIGCONT);
	while (fdstore_tick(store) != INT64_MAX)
		raw_sleep_ms(1);
	shelf_await_kept(keeper, 2);
	assert_int_equal(shelf_keeper(), keeper);
	close(fd);
	shelf_finish(store);
}

/* A name that is put again stands for what was put last. */
static void the_last_put_counts(void **state)
{
	struct fdstore *store;
	int one = shelf_make(1), two = shelf_make(2);

	(void)state;
	shelf_needs_keeper();
	store = shelf_reopen(NULL);
	assert_true(fdstore_put(store, 2, one));
	assert_true(fdstore_put(store, 2, two));
	fdstore_drop(store, 2);
	fdstore_flush(store);
	assert_true(fdstore_put(store, 2, one));
	assert_true(fdstore_put(store, 2, two));
	store = shelf_reopen(store);
	shelf_await_kept(shelf_keeper(), 1);
	shelf_take(store, 2, 1);
	close(one);
	close(two);
	shelf_finish(store);
}

/* The new one is there before the old one has left. */
static void two_registries_at_a_time(void **state)
{
	struct fdstore *old, *new;
	int fd = shelf_make(1);

	(void)state;
	shelf_needs_keeper();
	old = shelf_reopen(NULL);
	assert_true(fdstore_put(old, 1, fd));
	new = shelf_reopen(NULL);
	shelf_take(new, 1, 1);
	fdstore_close(old, true);
	new = shelf_reopen(new);
	shelf_take(new, 1, 1);
	close(fd);
	shelf_finish(new);
}

static void what_is_in_the_way_stays(void **state)
{
	struct fdstore *store;
	int fd = shelf_make(1);
	struct stat is;

	(void)state;
	shelf_needs_keeper();
	assert_int_equal(symlink("/dev/null", shelf_path("keeper.sock")), 0);
	store = shelf_reopen(NULL);
	assert_false(fdstore_put(store, 1, fd));
	assert_false(fdstore_put(store, 2, fd));
	assert_int_equal(lstat(shelf_path("keeper.sock"), &is), 0);
	assert_true(S_ISLNK(is.st_mode));
	fdstore_close(store, true);
	unlink(shelf_path("keeper.sock"));

	shelf_killed(put_three); /* a keeper that lives, of another user by the look of it */
	if (!chown(shelf_path("keeper.sock"), 65534, 65534)) {
		store = shelf_reopen(NULL);
		shelf_take_none(store, 1, 3);
		assert_false(fdstore_put(store, 1, fd));
		assert_int_not_equal(shelf_keeper(), 0);
		fdstore_close(store, true);
	} else {
		printf("skipped: another user's socket: not root\n");
	}
	close(fd);
}

static void without_its_directory_nothing_is_kept(void **state)
{
	struct fdstore *store;
	int fd = shelf_make(1);

	(void)state;
	rmdir(shelf_directory);
	store = shelf_reopen(NULL);
	assert_false(fdstore_put(store, 1, fd));
	assert_true(fdstore_tick(store) < INT64_MAX);
	shelf_take_none(store, 1, 1);
	fdstore_drop(store, 1);
	fdstore_flush(store);
	fdstore_close(store, true);
	close(fd);
}

#define with_shelf(test) cmocka_unit_test_setup_teardown(test, shelf_set_up, shelf_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    with_shelf(what_was_put_outlives_a_kill),
	    with_shelf(what_was_dropped_is_not_there),
	    with_shelf(what_nobody_takes_goes),
	    with_shelf(a_thousand_outlive_it),
	    with_shelf(what_waits_in_the_socket_is_not_lost),
	    with_shelf(a_busy_keeper_gets_it_later),
	    with_shelf(the_last_put_counts),
	    with_shelf(two_registries_at_a_time),
	    with_shelf(what_is_in_the_way_stays),
	    with_shelf(without_its_directory_nothing_is_kept),
	};

	return shelf_main(argc, argv, tests);
}
