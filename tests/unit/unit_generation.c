/* SPDX-License-Identifier: MIT */
/* Generations: never the same twice, whatever becomes of the file and the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/generation.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/gpushare-unit-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/generation", folder);
	if (unlink(path))
		rmdir(path);
	return rmdir(folder);
}

static void write_generation(const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/generation", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static uint64_t first_generation(void)
{
	struct generation generation;
	uint64_t first;

	generation_init(&generation, folder);
	first = generation_take(&generation);
	generation_finish(&generation);
	return first;
}

static void generations_are_never_reused(void **state)
{
	struct generation generation;
	uint64_t last = 0;

	(void)state;
	for (int start = 0; start < 5; start++) {
		generation_init(&generation, folder);
		/* more than one reservation holds */
		for (int i = 0; i < (start == 2 ? 3000000 : 1000); i++) {
			uint64_t next = generation_take(&generation);

			if (next <= last)
				fail_msg("%" PRIu64 " after %" PRIu64, next, last);
			last = next;
		}
		generation_finish(&generation);
	}
}

static void the_file_wins_over_a_clock_set_back(void **state)
{
	uint64_t ahead = clock_unix_ns() / 1000 + UINT64_C(1000000) * 3600 * 24 * 365;
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%" PRIu64 "\n", ahead);
	write_generation(text);
	assert_true(first_generation() > ahead);
	assert_true(first_generation() > ahead + 1000000); /* what the first had reserved */
}

static void a_garbage_file_is_survived(void **state)
{
	static const char *const garbage[] = {
	    "",
	    "\n",
	    "hello\n",
	    "-5\n",
	    "12",
	    "12\n13\n",
	    " 7\n",
	    "0x99\n",
	    "18446744073709551615\n",
	    "99999999999999999999999999\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
		uint64_t clock = clock_unix_ns() / 1000, first;

		write_generation(garbage[i]);
		first = first_generation();
		assert_in_range(first, clock, clock + 60 * 1000000);
	}
}

static void an_unwritable_file_is_survived(void **state)
{
	uint64_t clock = clock_unix_ns() / 1000;
	struct generation generation;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/generation", folder);
	assert_int_equal(mkdir(path, 0700), 0); /* in the way for root, too */
	assert_in_range(first_generation(), clock, clock + 60 * 1000000);
	snprintf(path, sizeof(path), "%s/generation.new", folder);
	unlink(path);
	generation_init(&generation, "/nonexistent/folder");
	assert_in_range(generation_take(&generation), clock, clock + 60 * 1000000);
	generation_finish(&generation);
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_folder(generations_are_never_reused),
	    with_folder(the_file_wins_over_a_clock_set_back),
	    with_folder(a_garbage_file_is_survived),
	    with_folder(an_unwritable_file_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
