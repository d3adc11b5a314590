/* SPDX-License-Identifier: MIT */
/* Connections whose client has come back by another one before they were answered. */
#include "unit.h"

#include <unistd.h>

#include "successor.h"

static struct process self;
static request hello; /* that wants to have what the session before had */
static uint64_t generation;

/* "x" is shared, and the registry's successor is there. */
static void begin(void)
{
	struct session *session = successor_connect(getpid());

	generation = peer_share(session, "x");
	hello = (request){.which_verb = gpushare_Request_hello_tag,
			  .verb.hello.protocol = GPUSHARE_PROTOCOL};
	memcpy(hello.verb.hello.resume, session->key, sizeof(session->key));
	self = session->peer;
	successor_start();
}

static void says_hello(struct session *session, uint32_t attempt, bool resumes)
{
	hello.verb.hello.attempt = attempt;
	assert_int_equal(peer_ask(session, &hello), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.hello.resumed, resumes);
}

static void end(struct session *given_up, struct session *session)
{
	assert_null(registry_disconnect(peer_registry, given_up));
	assert_int_equal(peer_withdraw(session, "x", generation), GPUSHARE_OK);
}

/* A client that waits no longer for an answer comes again; what it said before is read when the other has
 * been answered, and ends with its connection. */
static void who_was_given_up_takes_over_nothing(void **state)
{
	struct session *given_up, *session;

	(void)state;
	begin();
	given_up = registry_connect(peer_registry, 4711, &self);
	assert_non_null(given_up);
	session = successor_resume(getpid(), hello.verb.hello.resume);
	assert_true(peer_answer.body.hello.resumed);
	says_hello(given_up, 0, false);
	end(given_up, session);
}

/* Of two at once the registry may welcome the earlier last. */
static void nor_when_it_was_welcomed_last(void **state)
{
	struct session *given_up, *session;

	(void)state;
	begin();
	session = registry_connect(peer_registry, 4711, &self);
	given_up = registry_connect(peer_registry, 4712, &self);
	assert_true(session && given_up);
	says_hello(session, 3, true);
	says_hello(given_up, 2, false);
	end(given_up, session);
}

/* What it asked for then is read when the other has told of all that is there. */
static void nor_is_anything_done_for_it_any_more(void **state)
{
	struct session *given_up, *session;
	request what = peer_share_of("late");

	(void)state;
	begin();
	given_up = registry_connect(peer_registry, 4711, &self);
	assert_non_null(given_up);
	says_hello(given_up, 1, true);
	session = registry_connect(peer_registry, 4712, &self);
	assert_non_null(session);
	says_hello(session, 2, true);
	assert_int_equal(peer_ask(given_up, &what), GPUSHARE_E_DENIED);
	assert_int_equal(peer_lookup(session, "late", 0), GPUSHARE_E_NOT_FOUND);
	end(given_up, session);
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
