/* SPDX-License-Identifier: MIT */
/* Peers that leave before they are greeted, and a listener that went deaf: who comes next is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "raw.h"

#define SOON_MS 80 /* nng's own pause after a connection that it lost is 100 */

static long long connect_ms(void)
{
	const struct client_options options = {
	    .directory = raw_here.directory, .who = "unit", .timeout_ms = RAW_TIMEOUT_MS};
	struct client *client = client_new(&options);
	long long began_ms = raw_now_ms();

	assert_non_null(client);
	assert_int_equal(client_connect(client), GPUSHARE_OK);
	client_free(client);
	return raw_now_ms() - began_ms;
}

static void who_leaves_before_the_greeting_holds_up_nobody(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		int fd = raw_dial(&raw_here);

		if (i % 3)
			raw_write(fd, "\0SP\0\0\x30\0\0", (size_t)(i % 3 * 4));
		close(fd);
		assert_in_range(connect_ms(), 0, SOON_MS + raw_slack_ms());
	}
}

static char aside[GPUSHARE_PATH_MAX + 8];

/* Greets the first who comes, and no more; for the others the daemon is back. */
static void *be_deaf(void *listener)
{
	int fd = accept((int)(intptr_t)listener, NULL, NULL);
	uint8_t greeting[SP_GREETING_SIZE];

	sp_greeting(greeting, SP_REP);
	raw_write(fd, greeting, sizeof(greeting));
	rename(aside, raw_here.socket);
	return (void *)(intptr_t)fd;
}

static void who_is_not_answered_dials_again(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pthread_t thread;
	void *fd;

	(void)state;
	snprintf(aside, sizeof(aside), "%s.aside", raw_here.socket);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", raw_here.socket);
	assert_int_equal(rename(raw_here.socket, aside), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(pthread_create(&thread, NULL, be_deaf, (void *)(intptr_t)listener), 0);
	assert_in_range(connect_ms(), 1, RAW_TIMEOUT_MS / 2);
	pthread_join(thread, &fd);
	close((int)(intptr_t)fd);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(who_leaves_before_the_greeting_holds_up_nobody,
					    raw_set_up, raw_tear_down),
	    cmocka_unit_test_setup_teardown(who_is_not_answered_dials_again, raw_set_up,
					    raw_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
