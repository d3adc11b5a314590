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

static struct process self;
static request hello; /* that wants to have what the lease before had */
static uint64_t generation;

/* "x" is shared, and the registry's successor is there. */
static void begin(void)
{
	struct lease *lease = successor_connect(getpid());

	generation = peer_share(lease, "x");
	hello = (request){.which_verb = gpushare_Request_hello_tag,
			  .verb.hello.protocol = GPUSHARE_PROTOCOL};
	memcpy(hello.verb.hello.resume, lease->key, sizeof(lease->key));
	self = lease->peer;
	successor_start();
}

static void says_hello(struct lease *lease, uint32_t attempt, bool resumes)
{
	hello.verb.hello.attempt = attempt;
	assert_int_equal(peer_ask(lease, &hello), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.hello.resumed, resumes);
}

static void end(struct lease *given_up, struct lease *lease)
{
	assert_null(registry_disconnect(peer_registry, given_up));
	assert_int_equal(peer_withdraw(lease, "x", generation), GPUSHARE_OK);
}

/* A client that waits no longer for an answer comes again; what it said before is read when the other has
 * been answered, and ends with its connection. */
static void who_was_given_up_takes_over_nothing(void **state)
{
	struct lease *given_up, *lease;

	(void)state;
	begin();
	given_up = registry_connect(peer_registry, 4711, &self);
	assert_non_null(given_up);
	lease = successor_resume(getpid(), hello.verb.hello.resume);
	assert_true(peer_answer.body.hello.resumed);
	says_hello(given_up, 0, false);
	end(given_up, lease);
}

/* Of two at once the registry may welcome the earlier last. */
static void nor_when_it_was_welcomed_last(void **state)
{
	struct lease *given_up, *lease;

	(void)state;
	begin();
	lease = registry_connect(peer_registry, 4711, &self);
	given_up = registry_connect(peer_registry, 4712, &self);
	assert_true(lease && given_up);
	says_hello(lease, 3, true);
	says_hello(given_up, 2, false);
	end(given_up, lease);
}

/* What it asked for then is read when the other has told of all that is there. */
static void nor_is_anything_done_for_it_any_more(void **state)
{
	struct lease *given_up, *lease;
	request what = peer_share_of("late");

	(void)state;
	begin();
	given_up = registry_connect(peer_registry, 4711, &self);
	assert_non_null(given_up);
	says_hello(given_up, 1, true);
	lease = registry_connect(peer_registry, 4712, &self);
	assert_non_null(lease);
	says_hello(lease, 2, true);
	assert_int_equal(peer_ask(given_up, &what), GPUSHARE_E_DENIED);
	assert_int_equal(peer_lookup(lease, "late", 0), GPUSHARE_E_NOT_FOUND);
	end(given_up, lease);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, successor_set_up, successor_tear_down)
	    T(who_was_given_up_takes_over_nothing),
	    T(nor_when_it_was_welcomed_last),
	    T(nor_is_anything_done_for_it_any_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
