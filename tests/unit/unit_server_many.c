/* SPDX-License-Identifier: MIT */
/* Ten thousand connections at once, all of them served; and the memory that many names leave
 * behind. */
#include "unit.h"

#include "raw.h"

#define MANY 10000
#define NAMES 48000
#define LANES 16
#define BESIDE 500 /* descriptors for everything else */

/* The daemon has a socket for each connection, and for the first ones a pidfd too. It lets
 * connections use two thirds of its descriptor limit. This process has only the socket of each. */
static bool may_have(rlim_t fds)
{
	struct rlimit files;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < fds)
		files.rlim_max = fds;
	files.rlim_cur = fds;
	if (!setrlimit(RLIMIT_NOFILE, &files))
		return true;
	printf("skipped: a process may have too few descriptors here, and %d are needed\n",
	       (int)fds);
	return false;
}

/* Return the value of a line in the daemon's /proc/PID/status. */
static long daemon_kib(const char *key)
{
	char path[64], line[128];
	long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)raw_here.pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, strlen(key)))
			kib = atol(line + strlen(key) + 1);
	}
	fclose(file);
	assert_int_not_equal(kib, 0);
	return kib;
}

static void ten_thousand_at_once(void **state)
{
	static int fds[MANY];
	long long begun_ms = raw_now_ms();
	long before_kib, kib;
	char name[32];

	if (!may_have(3 * MANY / 2 + BESIDE))
		skip();
	raw_set_up(NULL);
	fds[0] = raw_connect(&raw_here);
	before_kib = daemon_kib("VmRSS");
	for (int i = 1; i < MANY; i++)
		fds[i] = raw_connect(&raw_here);
	raw_await_connections(fds[0], MANY);
	kib = daemon_kib("VmRSS") - before_kib;
	printf("%d connections in %lld ms, %ld bytes of the daemon each\n", MANY,
	       raw_now_ms() - begun_ms, kib * 1024 / MANY);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_in_range(kib * 1024 / MANY, 1, 16384);
#endif
	/* Each connection, the first and the last, shares a name of its own. */
	begun_ms = raw_now_ms();
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(raw_say(fds[i], raw_share(name)), GPUSHARE_OK);
	}
	printf("a share of each in %lld ms\n", raw_now_ms() - begun_ms);
	assert_int_equal(raw_stat(fds[MANY - 1]).names, MANY);
	for (int i = 0; i < MANY; i += 97)
		assert_int_equal(raw_say(fds[i], raw_attach("n9999", 0)), GPUSHARE_OK);
	for (int i = 1; i < MANY; i++)
		close(fds[i]);
	begun_ms = raw_now_ms();
	while (raw_stat(fds[0]).connections > 1 || raw_stat(fds[0]).names > 1) {
		assert_in_range(raw_now_ms() - begun_ms, 0, 4 * RAW_TIMEOUT_MS);
		raw_sleep_ms(20);
	}
	printf("all had gone after %lld ms\n", raw_now_ms() - begun_ms);
	close(fds[0]);
	raw_tear_down(NULL);
}

/* Share all names over several connections at a time, so that their round trips overlap. */
static void share_many(const int fds[LANES])
{
	char name[32];
	request what;

	for (int i = 0; i < NAMES; i += LANES) {
		for (int lane = 0; lane < LANES; lane++) {
			snprintf(name, sizeof(name), "n%d", i + lane);
			what = raw_share(name);
			assert_true(raw_send(fds[lane], (uint32_t)i + 1, &what));
		}
		for (int lane = 0; lane < LANES; lane++) {
			assert_true(
			    raw_receive(fds[lane], (uint32_t)i + 1, &raw_answer, RAW_TIMEOUT_MS));
			assert_int_equal(raw_answer.status, GPUSHARE_OK);
		}
	}
}

/* RssAnon leaves out the index, which has a fixed number of slots in shared memory. */
static void names_that_went_leave_no_memory_behind(void **state)
{
	int fds[LANES], stays;
	long before_kib, full_kib;
	/* An emulator keeps the code that it has translated. */
	long more_kib = raw_is_emulated() ? 4096 : 0;
	long long begun_ms;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* the sanitizers keep what is freed */
#endif
	raw_set_up(NULL);
	for (int lane = 0; lane < LANES; lane++)
		fds[lane] = raw_connect(&raw_here);
	stays = raw_connect(&raw_here);
	before_kib = daemon_kib("RssAnon");
	share_many(fds);
	assert_int_equal(raw_say(stays, raw_share("last")),
			 GPUSHARE_OK); /* allocated last, behind all others in the heap */
	full_kib = daemon_kib("RssAnon");
	assert_in_range(full_kib - before_kib, NAMES / 4, NAMES * 4);
	for (int lane = 0; lane < LANES; lane++)
		close(fds[lane]);
	begun_ms = raw_now_ms();
	while (daemon_kib("RssAnon") - before_kib > (full_kib - before_kib) / 10 + more_kib) {
		assert_in_range(raw_now_ms() - begun_ms, 0, 4 * RAW_TIMEOUT_MS);
		raw_sleep_ms(20);
	}
	printf("%ld KiB, %ld with %d names; after %lld ms without them %ld\n", before_kib, full_kib,
	       NAMES, raw_now_ms() - begun_ms, daemon_kib("RssAnon"));
	raw_tear_down(NULL);
}

/* The daemon refuses a connection while it still has descriptors for its other work. This test
 * runs last: the process keeps the low limit. */
static void few_descriptors_are_not_all_for_connections(void **state)
{
	const struct rlimit few = {512, 512};
	request hello = raw_hello_request();
	int fds[400], count = 0, status;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	raw_set_up(NULL);
	do {
		assert_in_range(count, 0, 400 - 1);
		fds[count] = raw_greet(&raw_here);
		status = raw_say(fds[count++], hello);
	} while (!status);
	assert_int_equal(status, GPUSHARE_E_LIMIT);
	raw_assert_sentence("connections are open, which is all that this registry takes");
	assert_in_range(count, 256, 342);
	assert_int_equal(raw_say(fds[0], raw_share("x")), GPUSHARE_OK);
	while (count)
		close(fds[--count]);
	raw_tear_down(NULL);
}

UNIT_MAIN(UNIT(ten_thousand_at_once), UNIT(names_that_went_leave_no_memory_behind),
	  UNIT(few_descriptors_are_not_all_for_connections))
