/* SPDX-License-Identifier: MIT */
/* The audit of those who have no connection to hear a sentence on. */
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

#include "configured.h"
#include "limit.h"

static int small_set_up(void **state)
{
	(void)state;
	configured_start("audit = audit.log\nuser_watchers = 1\nuser_connections = 1\n");
	return 0;
}

static int watch(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/events.sock", raw_here.directory);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Who has no connection to hear a sentence on. */
static void a_watcher_too_many(void **state)
{
	int first = watch(), second = watch();
	int fd = raw_connect(&raw_here);
	char all[512], *text;

	(void)state;
	configured_await("audit.log", "watch uid=");
	text = configured_file("audit.log");
	snprintf(all, sizeof(all),
		 "watch uid=%u pid=%d command=\"unit_audit_refu\" outcome=E_LIMIT why=\"a limit is "
		 "reached\"\n",
		 geteuid(), (int)getpid());
	assert_string_equal(strstr(text, "watch"), all);
	free(text);
	assert_int_equal(configured_limits(fd, "user_watchers"), 1);
	close(first);
	close(second);
	close(fd);
}

/* Connections above the limit, and those that are to hear of it. */
static void a_connection_too_many(void **state)
{
	int fds[LIMIT_CONNECTIONS_SPARE + 2];

	(void)state;
	for (int i = 0; i < LIMIT_CONNECTIONS_SPARE + 2; i++)
		fds[i] = raw_greet(&raw_here);
	configured_await("audit.log", "connect uid=");
	configured_await("audit.log", "outcome=E_LIMIT");
	for (int i = 0; i < LIMIT_CONNECTIONS_SPARE + 2; i++)
		close(fds[i]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, small_set_up, raw_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(a_watcher_too_many),
	    TEST(a_connection_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
