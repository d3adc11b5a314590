/* SPDX-License-Identifier: MIT */
/* The directory that a client trusts: each call about it fails once, and then it is trusted no more than
 * before, with a sentence that names it. */
#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptors.h"
#include "protocol.h"
#include "scarce.h"

static char parent[64], directory[80], why[512];

static int set_up(void **state)
{
	(void)state;
	strcpy(parent, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(parent))
		return -1;
	snprintf(directory, sizeof(directory), "%s/r", parent);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", parent);
	return system(command);
}

static int prepare(void)
{
	return directory_prepare(directory, why, sizeof(why));
}

static int check(void)
{
	return directory_check(directory, why, sizeof(why));
}

static int check_place(void)
{
	return directory_check_place(directory, why, sizeof(why));
}

/* Every status but OK comes with a sentence. */
static void sweep(int (*act)(void), bool made)
{
	int open_before = descriptors_open();

	SCARCE_EACH(nth)
	{
		int status;

		if (!made)
			rmdir(directory);
		*why = '\0';
		scarce_begin(nth);
		status = act();
		if (!scarce_end())
			assert_int_equal(status, GPUSHARE_OK);
		if (status)
			assert_non_null(strstr(why, directory));
		assert_int_equal(descriptors_open(), open_before);
	}
}

static void it_is_made_or_refused(void **state)
{
	struct stat is;

	(void)state;
	sweep(prepare, false);
	assert_int_equal(stat(directory, &is), 0);
	assert_int_equal(is.st_mode & 07777, 0700);
	sweep(prepare, true);
	sweep(check, true);
}

static void a_hosts_is_marked_and_closed_to_others(void **state)
{
	struct directory_trust trust;

	(void)state;
	assert_int_equal(mkdir(directory, 0755), 0);
	assert_int_equal(chmod(directory, DIRECTORY_SYSTEM_MARK | 0755), 0);
	assert_int_equal(directory_check_trust(directory, &trust, why, sizeof(why)), GPUSHARE_OK);
	assert_true(trust.is_system);
	assert_true(directory_is_served_by(&trust, geteuid()));
	assert_true(directory_is_served_by(&trust, 0));
	assert_false(directory_is_served_by(&trust, geteuid() + 1));
	assert_int_equal(prepare(), GPUSHARE_E_NO_REGISTRY);
	assert_non_null(strstr(why, "one for all users"));
	/* the mark says nothing where others may write */
	assert_int_equal(chmod(directory, DIRECTORY_SYSTEM_MARK | 0777), 0);
	assert_int_equal(check(), GPUSHARE_E_DENIED);
	assert_non_null(strstr(why, "open to others"));
}

static void anothers_is_trusted_where_root_alone_could_put_it(void **state)
{
	(void)state;
	if (geteuid()) {
		printf("skipped: giving a directory to another user needs root\n");
		skip();
	}
	assert_int_equal(chmod(parent, 0777), 0);
	assert_int_equal(mkdir(directory, 0755), 0);
	assert_int_equal(chown(directory, 12345, 12345), 0);
	assert_int_equal(chmod(directory, DIRECTORY_SYSTEM_MARK | 0755), 0);
	assert_int_equal(check(), GPUSHARE_E_DENIED);
	assert_non_null(strstr(why, "the directory above"));
	assert_int_equal(check_place(), GPUSHARE_E_DENIED);
	assert_int_equal(chmod(parent, 0755), 0);
	sweep(check, true);
	sweep(check_place, true);
	/* without the mark it is that user's own */
	assert_int_equal(chmod(directory, 0700), 0);
	assert_int_equal(check(), GPUSHARE_E_DENIED);
	assert_non_null(strstr(why, "belongs to uid 12345"));
}

static void a_path_from_here_needs_to_know_where(void **state)
{
	char path[GPUSHARE_PATH_MAX];
	int failures = 0;

	(void)state;
	SCARCE_EACH(nth)
	{
		int status;

		scarce_begin(nth);
		status = directory_find("r", path);
		if (!scarce_end())
			assert_int_equal(status, GPUSHARE_OK);
		failures += status != GPUSHARE_OK;
	}
	assert_int_equal(failures, 1);
	assert_int_equal(*path, '/');
}

#define DIRECTORY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    DIRECTORY_TEST(it_is_made_or_refused),
	    DIRECTORY_TEST(a_hosts_is_marked_and_closed_to_others),
	    DIRECTORY_TEST(anothers_is_trusted_where_root_alone_could_put_it),
	    DIRECTORY_TEST(a_path_from_here_needs_to_know_where),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
