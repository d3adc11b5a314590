/* SPDX-License-Identifier: MIT */
/* A connection whose end the registry had begun when it was restarted. */
#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_fdstore.h"
#include "save.h"
#include "os/piece.h"
#include "successor.h"

#define MANY 100 /* more than one piece */

static struct session *other; /* of another process, which has "name/99" attached */
static pid_t process;

/* This process lives on: it has closed its connection. "kept" is the first that goes, or the last. */
static void share_kept(struct session *session)
{
	request kept = successor_share("kept", GPUSHARE_FLAG_KEEP);

	assert_int_equal(peer_ask(session, &kept), GPUSHARE_OK);
}

static struct session *own(bool kept_first)
{
	struct session *session = successor_connect(getpid());
	char name[32];

	if (kept_first)
		share_kept(session);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "name/%d", i);
		peer_share(session, name);
	}
	if (!kept_first)
		share_kept(session);
	process = successor_process();
	other = successor_connect(process);
	assert_int_equal(peer_attach(other, name), GPUSHARE_OK);
	peer_share(other, "other");
	assert_int_equal(peer_attach(session, "other"), GPUSHARE_OK);
	return session;
}

static void end_a_piece(struct session *session)
{
	assert_null(registry_leave(peer_registry, session));
	assert_true(registry_end(peer_registry, session, 0));
}

static void assert_ended(void)
{
	struct session *asking = successor_connect(process);

	assert_int_equal(peer_lookup(asking, "name/99", 0), GPUSHARE_E_NOT_FOUND);
	assert_true(successor_seen(asking, "kept")->owner_gone);
	assert_int_equal(successor_seen(asking, "other")->attachers, 0);
	assert_int_equal(peer_registry->store.count, 2);
	assert_int_equal(peer_registry->sessions.disconnected, 1);
	successor_end(process);
}

static void the_rest_ends_with_a_restart(void **state)
{
	(void)state;
	end_a_piece(own(false));
	successor_start();
	assert_ended();
}

static void what_is_kept_is_kept_once(void **state)
{
	(void)state;
	end_a_piece(own(true));
	successor_start();
	assert_ended();
}

/* All is written anew meanwhile. */
static void the_rest_ends_after_a_rewrite(void **state)
{
	(void)state;
	end_a_piece(own(false));
	save_all(peer_registry);
	successor_start();
	assert_ended();
}

static void the_rest_ends_between_a_rewrite_and_a_restart(void **state)
{
	struct session *session = own(false);

	(void)state;
	end_a_piece(session);
	save_all(peer_registry);
	assert_true(registry_end(peer_registry, session, 0));
	assert_false(registry_end(peer_registry, session, INT64_MAX));
	successor_start();
	assert_ended();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, successor_set_up, successor_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(the_rest_ends_with_a_restart),
	    TEST(what_is_kept_is_kept_once),
	    TEST(the_rest_ends_after_a_rewrite),
	    TEST(the_rest_ends_between_a_rewrite_and_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
