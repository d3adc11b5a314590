/* SPDX-License-Identifier: MIT */
/* Kept memory whose descriptors a service manager has, while another registry serves in between. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "restore.h"
#include "successor.h"

/* One that the service manager starts is killed, and leaves what is kept without an owner. */
static uint64_t leave(void)
{
	pid_t owner = successor_process();
	struct session *session;
	request what;

	fake_fdstore_managed = true;
	fake_fdstore_hides = false;
	successor_start();
	session = successor_connect(owner);
	what = successor_share("x", GPUSHARE_FLAG_KEEP);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	registry_disconnect(peer_registry, session);
	successor_end(owner);
	return peer_answer.body.share.generation;
}

static struct session *start(bool managed)
{
	fake_fdstore_hides = !managed;
	successor_start();
	return successor_connect(getpid());
}

static void it_waits_for_the_managers_next(void **state)
{
	uint64_t x = leave();
	struct session *session;

	(void)state;
	for (int i = 0; i < 3; i++) { /* clients start some, which are killed too */
		session = start(false);
		assert_true(successor_seen(session, "x")->missing);
		assert_int_equal(peer_attach(session, "x"), GPUSHARE_E_NOT_FOUND);
		assert_true(registry_expire(peer_registry, clock_ns()) < INT64_MAX);
		assert_true(successor_seen(session, "x")->missing);
	}
	session = start(true);
	assert_false(successor_seen(session, "x")->missing);
	assert_int_equal(successor_seen(session, "x")->generation, x);
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	assert_true(registry_expire(peer_registry, clock_ns()) == INT64_MAX);
}

static void it_waits_no_longer_than_that(void **state)
{
	int64_t later = clock_ns() + (LIMIT_AWAY_S + 1) * NS_PER_S;
	struct session *session;

	(void)state;
	leave();
	session = start(false);
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_OK);
	assert_true(registry_expire(peer_registry, later) == INT64_MAX);
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("lost with the registry");
	session = start(false); /* nor does the next one */
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_true(registry_expire(peer_registry, clock_ns()) == INT64_MAX);
}

/* What its own store has lost is lost at once, as ever. */
static void what_the_manager_lost_is_lost(void **state)
{
	struct session *session;

	(void)state;
	fake_fdstore_loses = true;
	leave();
	fake_fdstore_loses = false;
	session = start(true);
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_NOT_FOUND);
}

static int tear_down(void **state)
{
	fake_fdstore_managed = fake_fdstore_hides = fake_fdstore_loses = false;
	return successor_tear_down(state);
}

int main(void)
{
#define AWAY(test) cmocka_unit_test_setup_teardown(test, successor_set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    AWAY(it_waits_for_the_managers_next),
	    AWAY(it_waits_no_longer_than_that),
	    AWAY(what_the_manager_lost_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
