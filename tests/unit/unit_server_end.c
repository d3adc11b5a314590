/* SPDX-License-Identifier: MIT */
/* The end of an owner of many names: piece by piece, and others are served meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "configured.h"

#define MANY 60000
#define AS_MANY "60001" /* and one of somebody else's */

static int other; /* who stays, and has the name "mine" */

static int set_up(void **state)
{
	(void)state;
	configured_start("user_names = " AS_MANY "\n");
	other = raw_connect(&raw_here);
	assert_int_equal(raw_say(other, raw_share("mine")), GPUSHARE_OK);
	return 0;
}

static int tear_down(void **state)
{
	close(other);
	return raw_tear_down(state);
}

static const char *name_at(int at)
{
	static char name[32];

	snprintf(name, sizeof(name), "many/%d", at);
	return name;
}

static int own_many(void)
{
	int fd = raw_connect(&raw_here);

	for (int i = 0; i < MANY; i++)
		assert_int_equal(raw_say(fd, raw_share(name_at(i))), GPUSHARE_OK);
	return fd;
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double look_up(void)
{
	double began = now_ms();

	assert_int_equal(raw_say(other, raw_lookup("mine", 0)), GPUSHARE_OK);
	return now_ms() - began;
}

/* The lock was once held from the first name to the last. Now a look-up waits for a piece, or for the
 * journal to be written anew. */
static void others_are_answered_meanwhile(void **state)
{
	int fd = own_many();
	double began, slowest = 0, all;

	(void)state;
	began = now_ms();
	close(fd);
	do {
		double took = look_up();

		slowest = took > slowest ? took : slowest;
	} while (raw_stat(other).names > 1);
	all = now_ms() - began;
	printf("%d names ended in %.0f ms; the slowest look-up meanwhile took %.1f ms\n", MANY, all,
	       slowest);
	if (slowest > all * 2 / 3)
		fail_msg("a look-up waited for %.1f ms of the %.0f ms that the end took", slowest,
			 all);
}

/* Nobody meets what has not ended yet, and it counts against nobody's limit. */
static void what_it_had_is_free_at_once(void **state)
{
	int fd = own_many();
	uint64_t left;

	(void)state;
	assert_int_equal(raw_say(other, raw_share("one/more")), GPUSHARE_E_LIMIT);
	close(fd);
	raw_await_connections(other, 1);
	assert_int_equal(raw_say(other, raw_share(name_at(MANY - 1))), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_lookup(name_at(MANY - 2), 0)), GPUSHARE_E_NOT_FOUND);
	for (int i = 0; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "more/%d", i);
		assert_int_equal(raw_say(other, raw_share(name)), GPUSHARE_OK);
	}
	left = raw_stat(other).names;
	printf("%llu names were left then\n", (unsigned long long)left);
	while (left > 102) {
		uint64_t now = raw_stat(other).names;

		assert_true(now <= left);
		left = now;
	}
	assert_int_equal(left, 102);
}

static void a_signal_is_obeyed_meanwhile(void **state)
{
	int fd = own_many();

	(void)state;
	close(fd);
	raw_await_connections(other, 1);
	assert_int_equal(kill(raw_here.pid, SIGTERM), 0);
	assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS), 0);
	raw_daemon_start(&raw_here, NULL);
	close(other);
	other = raw_connect(&raw_here);
}

/* The process lives on, without a connection: nobody is to come back for what was ending. */
static void an_end_goes_on_after_a_restart(void **state)
{
	int fd = own_many();

	(void)state;
	close(fd);
	raw_await_connections(other, 1);
	printf("%u names were left then\n", (unsigned int)raw_stat(other).names);
	assert_int_equal(kill(raw_here.pid, SIGTERM), 0);
	assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS), 0);
	raw_daemon_start(&raw_here, NULL);
	close(other);
	other = raw_connect(&raw_here);
	assert_int_equal(raw_say(other, raw_lookup(name_at(MANY - 1), 0)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_stat(other).names, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(others_are_answered_meanwhile),
	    TEST(what_it_had_is_free_at_once),
	    TEST(a_signal_is_obeyed_meanwhile),
	    TEST(an_end_goes_on_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
