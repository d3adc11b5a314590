/* SPDX-License-Identifier: MIT */
/* A registry whose listener went deaf listens anew: who came in between dials again by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <unistd.h>

#include "client.h"
#include "probe.h"
#include "raw.h"

static struct client *client_of(unsigned int timeout_ms)
{
	const struct client_options options = {
	    .directory = raw_here.directory, .who = "unit", .timeout_ms = timeout_ms};
	struct client *client = client_new(&options);

	assert_non_null(client);
	return client;
}

/* Who leaves before the greeting (nanomsg/nng#1518) deafens it; the client comes right behind. */
static void whoever_comes_while_it_is_deaf_is_served(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct client *client = client_of(RAW_TIMEOUT_MS);
		long long began_ms = raw_now_ms();

		close(raw_dial(&raw_here));
		assert_int_equal(client_connect(client), GPUSHARE_OK);
		assert_in_range(raw_now_ms() - began_ms, 0,
				3 * (PROBE_EVERY_MS + PROBE_ANSWER_MS) + raw_slack_ms());
		client_free(client);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(whoever_comes_while_it_is_deaf_is_served, raw_set_up,
					    raw_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
