/* SPDX-License-Identifier: MIT */
/* Where the CPU's copies stop to pay: races with known outcomes, and the file that keeps it. */
#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_copy.h"
#include "host_crossover.h"

static const unsigned char uuid[GPUSHARE_UUID_SIZE] = {1, 2, 3, 0xfe};
static char directory[64], path[160];

static int64_t now_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void spin_us(clockid_t clock, int64_t us)
{
	for (int64_t end = now_us(clock) + us; now_us(clock) < end;)
		;
}

struct known {
	size_t to, from; /* up to which the CPU wins */
	size_t fails;	 /* at which a copy fails; 0: at none */
	unsigned int runs, slow_us;
	size_t largest;
};

/* The CPU takes longer the larger it is, the other always the same. */
static bool known_race(void *user, bool to, bool dma, size_t size)
{
	struct known *known = user;

	known->runs++;
	if (size > known->largest)
		known->largest = size;
	if (size == known->fails)
		return false;
	if (known->slow_us)
		spin_us(CLOCK_THREAD_CPUTIME_ID, known->slow_us);
	else
		spin_us(CLOCK_MONOTONIC, dma					  ? 60
					 : size <= (to ? known->to : known->from) ? 1
										  : 150);
	return true;
}

/* On a busy machine a race may be disturbed: what counts is that it is right when it is not. */
static bool finds(size_t to, size_t from, size_t most, size_t largest)
{
	for (int tries = 0; tries < 100; tries++) {
		struct known known = {.to = to, .from = from};
		struct host_crossover found;

		if (host_crossover_measure(known_race, &known, most, &found) && found.to == to &&
		    found.from == from && known.largest == largest)
			return true;
	}
	return false;
}

static void test_found(void **state)
{
	(void)state;
	assert_true(finds(4096, 256, 1 << 20, 4 * 4096)); /* two further, and no more */
	assert_true(finds(64, 2048, 1 << 20, 4 * 2048));
}

static void test_always_and_never(void **state)
{
	(void)state;
	assert_true(finds(8192, 0, 8192, 8192));
}

static void test_failed(void **state)
{
	struct known known = {.to = 4096, .from = 256, .fails = 128};
	struct host_crossover found = {7, 8};

	(void)state;
	assert_false(host_crossover_measure(known_race, &known, 1 << 20, &found));
	assert_int_equal(found.to, 7);
	assert_int_equal(found.from, 8);
}

/* Copies that take for ever end it after the first size. */
static void test_bounded(void **state)
{
	struct known known = {.slow_us = 4000};
	struct host_crossover found;

	(void)state;
	assert_false(host_crossover_measure(known_race, &known, 1 << 20, &found));
	assert_int_equal(known.largest, 64);
	assert_int_equal(known.runs, 6);
}

static void keep(const char *line)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(line, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0600), 0);
}

static bool loads(void)
{
	struct host_crossover found = {0, 0};

	return host_crossover_load(directory, uuid, &found);
}

static void test_kept(void **state)
{
	static const unsigned char other[GPUSHARE_UUID_SIZE] = {9};
	const struct host_crossover first = {262144, 4096}, second = {0, 64};
	struct host_crossover found;
	struct stat there;
	char command[128];

	(void)state;
	assert_false(loads());
	host_crossover_save(directory, uuid, &first);
	assert_true(host_crossover_load(directory, uuid, &found));
	assert_memory_equal(&found, &first, sizeof(first));
	host_crossover_save(directory, uuid, &second);
	assert_true(host_crossover_load(directory, uuid, &found));
	assert_memory_equal(&found, &second, sizeof(second));
	assert_false(host_crossover_load(directory, other, &found));
	assert_int_equal(stat(path, &there), 0);
	assert_int_equal(there.st_mode & 07777, 0600);
	snprintf(command, sizeof(command), "[ \"$(ls -A %s | wc -l)\" = 1 ]", directory);
	assert_int_equal(system(command), 0); /* no part of it is left */
	host_crossover_save("/nonexistent", uuid, &first);
}

/* What is not as it was written is measured again. */
static void test_not_believed(void **state)
{
	const char *way = host_copy_best()->name;
	char good[128], line[256];

	(void)state;
	snprintf(good, sizeof(good), "gpushare-crossover 1 %s to 4096 from 64\n", way);
	keep(good);
	assert_true(loads());
	assert_int_equal(chmod(path, 0660), 0);
	assert_false(loads());
	keep("gpushare-crossover 1 mmx to 4096 from 64\n");
	assert_false(loads());
	snprintf(line, sizeof(line), "gpushare-crossover 2 %s to 4096 from 64\n", way);
	keep(line);
	assert_false(loads());
	snprintf(line, sizeof(line), "gpushare-crossover 1 %s to -1 from 64\n", way);
	keep(line);
	assert_false(loads());
	snprintf(line, sizeof(line), "gpushare-crossover 1 %s to 99999999999999 from 64\n", way);
	keep(line);
	assert_false(loads());
	snprintf(line, sizeof(line), "%s%s", good, good);
	keep(line);
	assert_false(loads());
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	keep(line);
	assert_false(loads());
	good[strlen(good) - 1] = '\0';
	keep(good);
	assert_false(loads());
	keep("");
	assert_false(loads());
	/* neither a link nor a pipe, which would wait */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_false(loads());
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(loads());
	assert_int_equal(unlink(path), 0);
}

static int begin(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/gpushare-unit.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/crossover-GPU-010203fe-0000-0000-0000-000000000000",
		 directory);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_found),
	    cmocka_unit_test(test_always_and_never),
	    cmocka_unit_test(test_failed),
	    cmocka_unit_test(test_bounded),
	    cmocka_unit_test_setup_teardown(test_kept, begin, end),
	    cmocka_unit_test_setup_teardown(test_not_believed, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
