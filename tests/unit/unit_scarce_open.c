/* SPDX-License-Identifier: MIT */
/* What a daemon opens first, and each call in turn fails: it says so, leaves nothing, and can again. */
#include "unit.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "os/closer.h"
#include "descriptors.h"
#include "peer.h"
#include "os/instance.h"
#include "persist/restore.h"
#include "scarce.h"

static char directory[] = "/tmp/gpushare-unit-XXXXXX";
static int open_before;

static int set_up(void **state)
{
	strcpy(directory + sizeof(directory) - 7, "XXXXXX");
	return peer_set_up(state) || !mkdtemp(directory);
}

static int tear_down(void **state)
{
	char command[64];

	peer_tear_down(state);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static void assert_none_open(const char *of)
{
	/* Some are closed in another thread. */
	for (int tries = 0; descriptors_open() != open_before && tries < 5000; tries++)
		poll(NULL, 0, 1);
	if (descriptors_open() != open_before)
		fail_msg("%s fails, and %d descriptors are left", of,
			 descriptors_open() - open_before);
}

static void a_place_is_had_or_left_to_others(void **state)
{
	struct instance place, another;

	(void)state;
	open_before = descriptors_open();
	SCARCE_EACH(nth)
	{
		int status;

		scarce_begin(nth);
		status = instance_open(&place, directory, false, false);
		if (!scarce_end())
			assert_int_equal(status, 0);
		if (!status) {
			assert_string_equal(place.directory, directory);
			assert_int_equal(instance_open(&another, directory, false, false),
					 INSTANCE_SERVED);
			instance_close(&place);
		}
		assert_none_open(scarce_what() ? scarce_what() : "nothing");
	}
}

/* The registry serves without what it could not have: a directory to be read, a generation's file. */
static void a_registry_begins_with_what_it_gets(void **state)
{
	struct registry *registry;

	(void)state;
	open_before = descriptors_open();
	SCARCE_EACH(nth)
	{
		bool restored = false;

		scarce_begin(nth);
		registry = registry_new();
		if (registry)
			restored = restore_open(registry, directory);
		if (!scarce_end())
			assert_true(registry && restored);
		if (registry && restored) {
			uint64_t first = generation_take(&registry->state.generation);

			assert_true(first && generation_take(&registry->state.generation) > first);
		}
		if (registry) {
			registry_let_go(registry, false);
			registry_free(registry);
		}
		assert_none_open(scarce_what() ? scarce_what() : "nothing");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_place_is_had_or_left_to_others, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_registry_begins_with_what_it_gets, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
