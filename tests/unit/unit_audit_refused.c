/* SPDX-License-Identifier: MIT */
/* The audit log of refused watchers and connections. */
#include "unit.h"

#include "configured.h"
#include "state/limit.h"

static int small_set_up(void **state)
{
	configured_start("audit = audit.log\nuser_watchers = 1\nuser_connections = 2\n");
	return 0;
}

static void a_watcher_too_many(void **state)
{
	request subscribe = {.which_verb = gpushare_Request_subscribe_tag};
	int first = raw_connect(&raw_here), second;
	char all[512], *text;

	assert_int_equal(raw_say(first, subscribe), GPUSHARE_OK);
	second = raw_connect(&raw_here);
	assert_int_equal(raw_say(second, subscribe), GPUSHARE_E_LIMIT);
	raw_assert_sentence("user_watchers in registry.conf");
	configured_await("audit.log", "subscribe uid=");
	text = configured_file("audit.log");
	snprintf(all, sizeof(all),
		 "subscribe uid=%u pid=%d command=\"unit_audit_refu\" outcome=E_LIMIT", geteuid(),
		 (int)getpid());
	assert_non_null(strstr(text, all));
	free(text);
	assert_int_equal(configured_limits(first, "user_watchers"), 1);
	close(first);
	close(second);
}

/* Exceed the limit and also the spare connections over which a refusal is still answered. */
static void a_connection_too_many(void **state)
{
	int fds[2 * LIMIT_CONNECTIONS_SPARE + 3];

	for (int i = 0; i < 2 * LIMIT_CONNECTIONS_SPARE + 3; i++)
		fds[i] = raw_dial(&raw_here);
	configured_await("audit.log", "connect uid=");
	configured_await("audit.log", "outcome=E_LIMIT");
	for (int i = 0; i < 2 * LIMIT_CONNECTIONS_SPARE + 3; i++)
		close(fds[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, small_set_up, raw_tear_down)
UNIT_MAIN(TEST(a_watcher_too_many), TEST(a_connection_too_many))
