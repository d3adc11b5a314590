/* SPDX-License-Identifier: MIT */
/* Who does not answer is deaf, and who is slow is not taken for deaf again and again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "descriptors.h"
#include "monotonic.h"
#include "probe.h"
#include "protocol.h"

static char folder[64], path[80];
static struct probe probe;
static int listener;

static int set_up(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/unit_probe.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", folder);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return bind(listener, (const struct sockaddr *)&at, sizeof(at)) || listen(listener, 16) ||
	       !probe_open(&probe);
}

static int tear_down(void **state)
{
	(void)state;
	probe_close(&probe);
	close(listener);
	unlink(path);
	return rmdir(folder);
}

static bool is_answered(void)
{
	return probe_is_answered(&probe, path, SP_REQ);
}

/* How long it takes until nobody is thought to listen. */
static long long ms_until_deaf(void)
{
	int64_t begin = monotonic_ms();

	while (is_answered())
		assert_in_range(monotonic_ms() - begin, 0, 20000);
	return monotonic_ms() - begin;
}

static void there_is_more_patience_each_time(void **state)
{
	int before = descriptors_open();

	(void)state;
	listen(listener, 0); /* from the second question on it is full */
	assert_true(ms_until_deaf() >= PROBE_ANSWER_MS - 1);
	assert_true(ms_until_deaf() >= 2 * PROBE_ANSWER_MS - 2);
	assert_true(ms_until_deaf() >= 4 * PROBE_ANSWER_MS - 4);
	assert_int_equal(descriptors_open(), before);
}

/* Who serves others is late to take one more. */
static void there_is_more_patience_with_the_busy(void **state)
{
	long long idle_ms = ms_until_deaf();

	(void)state;
	probe.patience = PROBE_PATIENCE;
	probe.busy = true;
	assert_true(ms_until_deaf() >= 5 * idle_ms);
}

static void a_late_answer_is_one(void **state)
{
	(void)state;
	while (probe.patience < 10 * PROBE_IDLE_LOOK)
		ms_until_deaf();
	assert_true(is_answered());
	assert_true(probe.fd >= 0);
	probe_hear(&probe);
	assert_true(is_answered());
	assert_int_equal(probe.fd, -1);
	assert_true(is_answered()); /* and the next question is a new one */
	assert_true(probe.fd >= 0);
}

/* Of a socket that is nobody's, or has gone, there is nothing to be learned. */
static void nobody_is_not_deaf(void **state)
{
	(void)state;
	close(listener);
	listener = -1;
	assert_true(is_answered());
	assert_int_equal(probe.fd, -1);
	unlink(path);
	assert_true(is_answered());
	assert_int_equal(probe.fd, -1);
}

#define apart(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    apart(there_is_more_patience_each_time),
	    apart(there_is_more_patience_with_the_busy),
	    apart(a_late_answer_is_one),
	    apart(nobody_is_not_deaf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
