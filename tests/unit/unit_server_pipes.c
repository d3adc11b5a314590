/* SPDX-License-Identifier: MIT */
/* The real daemon lets go of every connection that ends, whatever it is doing with it at that moment. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_fds.h"
#include "raw.h"

#define LEAVERS 4
#define LEAVES 400	 /* of each */
#define ASKED_AT_ONCE 16 /* more than are answered */

static void assert_let_go(int before)
{
	long long begin = raw_now_ms();
	int now;

	while ((now = daemon_fds()) > before) {
		if (raw_now_ms() - begin > RAW_TIMEOUT_MS)
			fail_msg("the daemon has %d descriptors, not %d", now, before);
		raw_sleep_ms(20);
	}
}

/* All at once, and gone before the first answer, or while the others are being read. */
static void ask_and_leave(unsigned int number)
{
	uint8_t body[gpushare_Request_size], wire[ASKED_AT_ONCE * 128];
	request ask = raw_lookup("nobody", 0);
	size_t size, length = 0;
	int fd = raw_connect(&raw_here);

	codec_encode_request(&ask, body, sizeof(body), &size);
	for (uint32_t id = 1; id <= ASKED_AT_ONCE; id++) {
		sp_header(wire + length, id, size);
		memcpy(wire + length + SP_HEADER_SIZE + SP_ID_SIZE, body, size);
		length += SP_HEADER_SIZE + SP_ID_SIZE + size;
	}
	raw_write(fd, wire, length);
	if (number % 2)
		usleep(number % 256);
	close(fd);
}

static void who_leaves_while_it_asks_is_let_go_of(void **state)
{
	pid_t pids[LEAVERS];
	int before, status;

	(void)state;
	raw_assert_serves();
	raw_sleep_ms(100);
	before = daemon_fds();
	for (int i = 0; i < LEAVERS; i++) {
		pids[i] = raw_fork();
		if (pids[i])
			continue;
		for (unsigned int number = 0; number < LEAVES; number++)
			ask_and_leave(number);
		_exit(0);
	}
	for (int i = 0; i < LEAVERS; i++) {
		waitpid(pids[i], &status, 0);
		assert_int_equal(status, 0);
	}
	assert_let_go(before);
	raw_assert_serves();
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_daemon(who_leaves_while_it_asks_is_let_go_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
