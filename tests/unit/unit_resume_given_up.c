/* SPDX-License-Identifier: MIT */
/* Connections whose client has come back by another one before they were answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <unistd.h>

#include "successor.h"

/* A client that waits no longer for an answer comes again; what it said before is read when the other has
 * been answered, and ends with its connection. */
static void who_was_given_up_takes_over_nothing(void **state)
{
	struct lease *given_up, *lease = successor_connect(getpid());
	uint64_t generation = peer_share(lease, "x");
	request what = {.which_verb = gpushare_Request_hello_tag,
			.verb.hello.protocol = GPUSHARE_PROTOCOL};
	struct process self = lease->peer;

	(void)state;
	memcpy(what.verb.hello.resume, lease->key, sizeof(lease->key));
	successor_start();
	given_up = registry_connect(peer_registry, 4711, &self);
	assert_non_null(given_up);
	lease = successor_resume(getpid(), what.verb.hello.resume);
	assert_true(peer_answer.body.hello.resumed);
	assert_int_equal(peer_ask(given_up, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.hello.resumed);
	assert_null(registry_disconnect(peer_registry, given_up));
	assert_int_equal(peer_withdraw(lease, "x", generation), GPUSHARE_OK);
}

/* Of two at once the registry may welcome the earlier last. */
static void nor_when_it_was_welcomed_last(void **state)
{
	struct lease *given_up, *lease = successor_connect(getpid());
	uint64_t generation = peer_share(lease, "x");
	request what = {.which_verb = gpushare_Request_hello_tag,
			.verb.hello.protocol = GPUSHARE_PROTOCOL};
	struct process self = lease->peer;

	(void)state;
	memcpy(what.verb.hello.resume, lease->key, sizeof(lease->key));
	successor_start();
	lease = registry_connect(peer_registry, 4711, &self);
	given_up = registry_connect(peer_registry, 4712, &self);
	assert_true(lease && given_up);
	what.verb.hello.attempt = 3;
	assert_int_equal(peer_ask(lease, &what), GPUSHARE_OK);
	assert_true(peer_answer.body.hello.resumed);
	what.verb.hello.attempt = 2;
	assert_int_equal(peer_ask(given_up, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.hello.resumed);
	assert_null(registry_disconnect(peer_registry, given_up));
	assert_int_equal(peer_withdraw(lease, "x", generation), GPUSHARE_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, successor_set_up, successor_tear_down)
	    T(who_was_given_up_takes_over_nothing),
	    T(nor_when_it_was_welcomed_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
