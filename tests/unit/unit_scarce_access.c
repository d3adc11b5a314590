/* SPDX-License-Identifier: MIT */
/* A registry's sockets are made, and each call for that fails once: there is one that listens, or none,
 * and its name is there or not accordingly. */
#include "unit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptors.h"
#include "os/socket_access.h"
#include "os/identity.h"
#include "scarce.h"

static char directory[64], path[80];

static int set_up(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/x.sock", directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	socket_access_set(false, IDENTITY_NO_GROUP);
	return rmdir(directory);
}

static void sweep(void)
{
	int open_before = descriptors_open();

	SCARCE_EACH(nth)
	{
		int fd;

		scarce_begin(nth);
		fd = socket_access_listen(path, SOCK_STREAM);
		if (!scarce_end())
			assert_true(fd >= 0);
		if (fd >= 0) {
			close(fd);
			assert_int_equal(unlink(path), 0);
		} else if (!access(path, F_OK)) {
			fail_msg("%s fails: a socket is left", scarce_what());
		}
		assert_int_equal(descriptors_open(), open_before);
	}
}

static void a_socket_is_made_or_not(void **state)
{
	(void)state;
	sweep();
	socket_access_set(true, IDENTITY_NO_GROUP);
	sweep();
	socket_access_set(true, getegid());
	sweep();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_socket_is_made_or_not, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
