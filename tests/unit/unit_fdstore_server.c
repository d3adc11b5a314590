/* SPDX-License-Identifier: MIT */
/* The daemon with its store: what is kept is there in the next one, memory and all. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "raw_fds.h"
#include "shelf.h"

/* What is shared under that name, kept, with memory that says `number`; then its owner goes. */
static void keep(const char *name, uint64_t number)
{
	int own = raw_connect(&raw_here), memory = shelf_make(number);
	request what = raw_fds_share(name);

	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	assert_int_equal(raw_fds_say(own, what, memory), GPUSHARE_OK);
	close(memory);
	close(own);
}

static void assert_kept(const char *name, uint64_t number)
{
	int own = raw_connect(&raw_here);

	assert_int_equal(raw_fds_say(own, raw_attach(name, 0), -1), GPUSHARE_OK);
	shelf_assert_is(raw_fds_came, number);
	close(raw_fds_came);
	close(own);
}

static void drop(const char *name)
{
	int own = raw_connect(&raw_here);

	assert_int_equal(raw_say(own, raw_withdraw(name, 0)), GPUSHARE_OK);
	close(own);
}

static void end_with(int number)
{
	kill(raw_here.pid, number);
	assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS),
			 number == SIGKILL ? 128 + SIGKILL : 0);
}

static void it_is_there_after_any_end(void **state)
{
	static const int ends[] = {SIGKILL, SIGTERM, SIGKILL, SIGINT};
	pid_t keeper;

	(void)state;
	shelf_needs_keeper();
	keep("a", 1);
	keep("b", 2);
	keeper = shelf_keeper();
	for (int i = 0; i < 4; i++) {
		end_with(ends[i]);
		shelf_await_kept(keeper, 2 + i);
		raw_daemon_start(&raw_here, NULL);
		assert_kept("a", 1);
		assert_kept("b", 2);
		keep((const char[]){(char)('c' + i), 0}, 3);
	}
	assert_int_equal(shelf_keeper(), keeper);
	for (int i = 0; i < 6; i++)
		drop((const char[]){(char)('a' + i), 0});
	shelf_await_kept(keeper, 0);
	end_with(SIGKILL);
	shelf_await_end(keeper, 1000);
}

static void it_changes_hands(void **state)
{
	static const char *const replace[] = {"--replace", NULL};
	struct raw_daemon old;
	pid_t keeper;

	(void)state;
	shelf_needs_keeper();
	keep("a", 1);
	keeper = shelf_keeper();
	for (int i = 0; i < 3; i++) {
		old = raw_here;
		raw_daemon_start(&raw_here, replace);
		assert_int_equal(raw_daemon_wait(&old, RAW_TIMEOUT_MS), 0);
		assert_kept("a", 1);
	}
	assert_int_equal(shelf_keeper(), keeper);
	drop("a");
	end_with(SIGTERM); /* with nothing to leave behind */
	shelf_await_end(keeper, 1000);
	assert_int_not_equal(access(raw_in_folder("keeper.sock"), F_OK), 0);
}

static void a_killed_keeper_is_missed_at_once(void **state)
{
	long long begin;
	pid_t keeper, next;

	(void)state;
	shelf_needs_keeper();
	keep("a", 1);
	keeper = shelf_keeper();
	raw_sleep_ms(1100); /* it starts one a second at most */
	kill(keeper, SIGKILL);
	begin = raw_now_ms();
	while (!(next = shelf_keeper()) || next == keeper)
		assert_in_range(raw_now_ms() - begin, 0, 1000 + raw_slack_ms());
	shelf_await_kept(next, 1);
	end_with(SIGKILL);
	raw_daemon_start(&raw_here, NULL);
	assert_kept("a", 1);
}

/* Who has the directory under raw_here has the shelf there. */
static int set_up(void **state)
{
	if (raw_set_up(state))
		return -1;
	strcpy(shelf_directory, raw_here.directory);
	return 0;
}

/* Which leaves a keeper behind: the directory's end is its. */
static int tear_down(void **state)
{
	pid_t keeper = shelf_keeper();

	if (raw_tear_down(state))
		return -1;
	if (keeper)
		shelf_await_end(keeper, 1000);
	return 0;
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(it_is_there_after_any_end),
	    with_daemon(it_changes_hands),
	    with_daemon(a_killed_keeper_is_missed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
