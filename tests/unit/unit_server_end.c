/* SPDX-License-Identifier: MIT */
/* An owner of many names ends: the registry ends its names in pieces, and serves others
 * meanwhile. */
#include "unit.h"

#include "configured.h"
#include "raw_fds.h"

#ifdef __SANITIZE_THREAD__ /* a request takes ten times as long there */
#define MANY 20000
#define AS_MANY "20001" /* MANY, and one of another client */
#else
#define MANY 60000
#define AS_MANY "60001"
#endif
#define RESYNC 0x7000000 /* the id of the resync request */

static int other; /* a connection that stays and owns the name "mine" */

static int set_up(void **state)
{
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

/* Send requests until at most `names` names are left. Return the time of the slowest answer, in
 * ms. */
static double look_until_left(uint64_t names)
{
	double slowest = 0, began, took;
	uint64_t left;

	do {
		began = now_ms();
		raw_seen(other, "mine");
		left = raw_stat(other).names;
		took = now_ms() - began;
		slowest = took > slowest ? took : slowest;
	} while (left > names);
	return slowest;
}

/* Once its owner has ended, a name that the registry still has to remove is free, and counts
 * against no limit. */
static void what_it_had_is_free_at_once(void **state)
{
	int fd = own_many();
	uint64_t left;

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

/* The owner's process lives on without a connection, but the restarted registry must not wait
 * for it. A kept buffer is kept once, whether its name is the first or the last. */
static void an_end_goes_on_after_a_restart(void **state)
{
	static const int ending[] = {SIGTERM, SIGKILL};

	if (raw_is_emulated())
		skip();
	for (int i = 0; i < 2; i++) {
		const char *kept = i ? "zzz" : "aaa";
		int fd = own_many();

		for (int gone = 0; gone < 2; gone++) /* the limit leaves no room for one more */
			assert_int_equal(raw_say(fd, raw_withdraw(name_at(gone), 0)), GPUSHARE_OK);
		assert_int_equal(raw_fds_put(fd, kept, GPUSHARE_FLAG_KEEP), GPUSHARE_OK);
		assert_int_equal(raw_say(other, raw_attach(name_at(MANY - 1), 0)), GPUSHARE_OK);
		close(fd);
		raw_await_connections(other, 1);
		printf("%u names were left then\n", (unsigned int)raw_stat(other).names);
		assert_int_equal(kill(raw_here.pid, ending[i]), 0);
		assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS), i ? 128 + SIGKILL : 0);
		raw_daemon_start(&raw_here, NULL);
		close(other);
		other = raw_connect(&raw_here);
		assert_int_equal(raw_say(other, raw_lookup(name_at(MANY - 1), 0)),
				 GPUSHARE_E_NOT_FOUND);
		assert_int_equal(raw_say(other, raw_lookup(kept, 0)), GPUSHARE_OK);
		assert_true(raw_answer.body.lookup.buffer.owner_gone);
		assert_int_equal(raw_stat(other).names, 2 + i);
	}
}

/* Tell of the first name alone, as if all others had been freed while the connection was down. */
static void resync(int fd)
{
	request ask = {0};

	raw_tell(&ask, name_at(0), raw_seen(other, name_at(0))->generation, 0);
	ask.verb.resync.last = true;
	assert_true(raw_send(fd, RESYNC, &ask));
}

/* A Resync, too, may end many names. */
static void others_are_answered_during_a_resync(void **state)
{
	int fd = own_many();
	double began = now_ms(), slowest, all;

	resync(fd);
	slowest = look_until_left(2);
	all = now_ms() - began;
	printf("%d names ended in %.0f ms; the slowest answer meanwhile took %.1f ms\n", MANY, all,
	       slowest);
	assert_true(raw_receive(fd, RESYNC, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_OK);
	assert_int_equal(raw_answer.body.resync.wanted_count, 0);
	raw_seen(other, name_at(0));
	assert_int_equal(raw_say(fd, raw_share(name_at(1))), GPUSHARE_OK);
	close(fd);
	if (slowest > all * 2 / 3)
		fail_msg("an answer took %.1f ms of the %.0f ms that it took", slowest, all);
}

/* The connection closes while the registry processes its resync. */
static void a_resync_ends_with_its_connection(void **state)
{
	int fd = own_many();
	uint64_t left;

	resync(fd);
	while ((left = raw_stat(other).names) > MANY)
		;
	assert_in_range(left, 3, MANY);
	close(fd);
	look_until_left(1);
	raw_await_connections(other, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(what_it_had_is_free_at_once), TEST(an_end_goes_on_after_a_restart),
	  TEST(others_are_answered_during_a_resync), TEST(a_resync_ends_with_its_connection))
