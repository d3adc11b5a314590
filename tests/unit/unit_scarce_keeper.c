/* SPDX-License-Identifier: MIT */
/* A registry's keeper is looked for, started and asked, and each call of the registry's fails: there is
 * one that answers, or none, and no descriptor is left open. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "descriptors.h"
#include "persist/keeper.h"
#include "persist/keeper_link.h"
#include "scarce.h"
#include "shelf.h"

static struct keeper_link link_to;

static const char *socket_path(void)
{
	static char path[GPUSHARE_PATH_MAX + sizeof(KEEPER_SOCKET)];

	snprintf(path, sizeof(path), "%s/" KEEPER_SOCKET, shelf_directory);
	return path;
}

static void a_keeper_is_started_or_not(void **state)
{
	int open_before;

	(void)state;
	shelf_needs_keeper();
	open_before = descriptors_open();
	SCARCE_EACH(nth)
	{
		bool started;

		unlink(socket_path());
		keeper_link_init(&link_to, shelf_directory);
		scarce_begin(nth);
		started = keeper_link_start(&link_to);
		if (!scarce_end())
			assert_true(started);
		assert_int_equal(started, link_to.fd >= 0);
		if (!started && !access(socket_path(), F_OK))
			fail_msg("%s fails: a socket is left", scarce_what());
		if (started) {
			assert_true(shelf_keeper() > 0);
			keeper_link_dismiss(&link_to);
		}
		keeper_link_close(&link_to);
		assert_int_equal(link_to.fd, -1);
		assert_int_equal(descriptors_open(), open_before);
	}
}

static void a_keeper_is_found_or_not(void **state)
{
	struct keeper_link another;
	int open_before;

	(void)state;
	shelf_needs_keeper();
	keeper_link_init(&link_to, shelf_directory);
	assert_true(keeper_link_start(&link_to));
	open_before = descriptors_open();
	SCARCE_EACH(nth)
	{
		uint64_t generations[FDS_MAX];
		int fds[FDS_MAX], count = -1;
		bool found;

		keeper_link_init(&another, shelf_directory);
		scarce_begin(nth);
		found = keeper_link_find(&another);
		if (found)
			count = keeper_link_take(&another, generations, fds);
		if (!scarce_end())
			assert_int_equal(count, 0);
		assert_true(count <= 0); /* nothing is kept there */
		assert_int_equal(found, another.fd >= 0);
		keeper_link_close(&another);
		assert_int_equal(descriptors_open(), open_before);
	}
	assert_true(keeper_link_lives(&link_to));
	keeper_link_dismiss(&link_to);
}

/* What it was given stays the caller's, and what it has of it goes with it. */
static void a_store_keeps_or_loses_but_leaks_nothing(void **state)
{
	int open_before;

	(void)state;
	shelf_needs_keeper();
	open_before = descriptors_open();
	SCARCE_EACH(nth)
	{
		struct fdstore *store;
		bool put = false;
		int fd = shelf_make(7);

		scarce_begin(nth);
		store = fdstore_open(shelf_directory);
		if (store)
			put = fdstore_put(store, 7, fd);
		if (!scarce_end())
			assert_true(put);
		if (store)
			fdstore_close(store, false);
		close(fd);
		for (int i = 0; i < 500 && descriptors_open() != open_before; i++)
			usleep(1000); /* its thread closes some */
		if (descriptors_open() != open_before)
			fail_msg("%s fails: %d descriptors are left", scarce_what(),
				 descriptors_open() - open_before);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_keeper_is_started_or_not, shelf_set_up,
					    shelf_tear_down),
	    cmocka_unit_test_setup_teardown(a_keeper_is_found_or_not, shelf_set_up,
					    shelf_tear_down),
	    cmocka_unit_test_setup_teardown(a_store_keeps_or_loses_but_leaks_nothing, shelf_set_up,
					    shelf_tear_down),
	};

	return shelf_main(argc, argv, tests);
}
