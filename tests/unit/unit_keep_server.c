/* SPDX-License-Identifier: MIT */
/* The real daemon keeps what outlives its owner: over kills, in time, and to its own end. */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_fds.h"

#define ROUNDS 200

static int kept(int own, const char *name, uint32_t ttl_s)
{
	request what = raw_fds_share(name);
	int file = raw_fds_make(), status;

	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	what.verb.share.buffer.ttl_s = ttl_s;
	status = raw_fds_say(own, what, file);
	close(file);
	return status;
}

static int kept_for_good(int own, const char *name)
{
	return kept(own, name, 0);
}

static void a_dead_owners_name_is_free_at_once(void **state)
{
	int fd = raw_connect(&raw_here), before = raw_fds_settled();

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid =
		    round % 2 ? raw_owner_by("x", kept_for_good) : raw_owner("x", raw_share);

		assert_int_equal(kept(fd, "x", 0), GPUSHARE_E_EXISTS);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_int_equal(kept(fd, "x", 0), GPUSHARE_OK);
		assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	}
	raw_fds_await(before);
	close(fd);
}

static void a_killed_owners_buffer_is_kept(void **state)
{
	int fd = raw_connect(&raw_here), before = raw_fds_settled();
	pid_t pid = raw_owner_by("x", kept_for_good);

	(void)state;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	do {
		assert_int_equal(raw_say(fd, raw_lookup("x", 0)), GPUSHARE_OK);
	} while (!raw_answer.body.lookup.buffer.owner_gone);
	assert_int_equal(raw_answer.body.lookup.buffer.owner_pid, pid);
	raw_fds_await(before + 1);
	assert_int_equal(raw_say(fd, raw_withdraw("x", 0)), GPUSHARE_OK);
	raw_fds_await(before);
	close(fd);
}

/* Killed in the middle of whatever it asks: its connection goes, and those after it. */
static void killed_clients_leave_no_connection(void **state)
{
	int before = raw_fds_settled();

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		int ready[2];
		char byte;
		pid_t pid;

		assert_int_equal(pipe(ready), 0);
		pid = raw_fork();
		if (!pid) {
			int fd = raw_connect(&raw_here);

			alarm(60);
			if (write(ready[1], "x", 1) != 1)
				_exit(1);
			for (;;)
				raw_say(fd, raw_lookup("x", 0));
		}
		close(ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		close(ready[0]);
		usleep((unsigned int)(round % 20) * 50);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	raw_fds_await(before);
}

static void a_ttl_ends_in_time(void **state)
{
	int fd = raw_connect(&raw_here), own = raw_connect(&raw_here), before = raw_fds_settled();
	long long begin, left;

	(void)state;
	assert_int_equal(kept(own, "x", 1), GPUSHARE_OK);
	assert_int_equal(kept(own, "y", 1), GPUSHARE_OK);
	left = raw_now_ms();
	close(own);
	do {
		assert_int_equal(raw_say(fd, raw_lookup("y", 0)), GPUSHARE_OK);
	} while (!raw_answer.body.lookup.buffer.owner_gone);
	assert_int_equal(raw_answer.body.lookup.buffer.ttl_left_s, 1);
	begin = raw_now_ms();
	while (!raw_say(fd, raw_lookup("x", 0)))
		raw_sleep_ms(5);
	assert_in_range(raw_now_ms() - begin, 0, 1000 + RAW_GONE_MS);
	assert_true(raw_now_ms() - left >= 1000);
	raw_assert_sentence("ttl");
	raw_fds_await(before - 2); /* the connection of its owner went too, and its watch */
	close(fd);
}

static void it_ends_cleanly_with_what_it_keeps(void **state)
{
	int own = raw_connect(&raw_here);

	(void)state;
	assert_int_equal(kept(own, "x", 0), GPUSHARE_OK);
	assert_int_equal(kept(own, "y", 1000), GPUSHARE_OK);
	assert_int_equal(raw_say(own, raw_withdraw("y", raw_answer.body.share.generation)),
			 GPUSHARE_OK);
	kill(raw_here.pid, SIGTERM);
	assert_int_equal(raw_daemon_wait(&raw_here, 4 * RAW_TIMEOUT_MS), 0);
	close(own);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, raw_fds_set_up, raw_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_dead_owners_name_is_free_at_once), TEST(a_killed_owners_buffer_is_kept),
	    TEST(killed_clients_leave_no_connection), TEST(a_ttl_ends_in_time),
	    TEST(it_ends_cleanly_with_what_it_keeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
