/* SPDX-License-Identifier: MIT */
/* Buffers whose descriptor was lost with the registry: brought back by owner or attacher, or not. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "persist/restore.h"
#include "successor.h"

#define KEEP GPUSHARE_FLAG_KEEP

static int set_up(void **state)
{
	fake_fdstore_loses = true;
	return successor_set_up(state);
}

static uint64_t share(struct session *session, const char *name, uint32_t flags)
{
	request what = successor_share(name, flags);

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.share.generation;
}

static int share_again(struct session *session, const char *name, uint64_t generation, bool orphan)
{
	request what = successor_share(name, KEEP);

	what.verb.share.again = generation;
	what.verb.share.orphan = orphan;
	return peer_ask(session, &what);
}

/* Whether the registry wants that generation of one who has it attached so often; 0: shared it. */
static bool is_wanted(struct session *session, const char *name, uint64_t generation,
		      uint32_t count)
{
	request what = {0};

	successor_tell(&what, name, generation, count);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.resync.wanted_count == 1 &&
	       peer_answer.body.resync.wanted[0] == generation;
}

static void the_owner_brings_it_back(void **state)
{
	struct session *session = successor_connect(getpid());
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t x = share(session, "x", KEEP);

	(void)state;
	memcpy(key, session->key, sizeof(key));
	successor_start();
	session = successor_connect(getpid());
	assert_true(successor_seen(session, "x")->missing);
	assert_int_equal(successor_seen(session, "x")->owner_pid, getpid());
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("nobody has brought its memory back yet");
	peer_assert_sentence("has it");
	assert_int_equal(peer_lookup(session, "x", 5), HANDLE_WAIT);
	request waits = {.which_verb = gpushare_Request_attach_tag};
	strcpy(waits.verb.attach.name, "x");
	waits.verb.attach.wait_ms = 5;
	assert_int_equal(peer_ask(session, &waits), HANDLE_WAIT);
	handle_timeout(peer_registry, session, &waits, &peer_answer);
	peer_assert_sentence("nobody has brought its memory back yet");
	request what = successor_share("x", KEEP); /* the name is not free */
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_EXISTS);

	session = successor_resume(getpid(), key);
	assert_true(peer_answer.body.hello.resumed);
	assert_true(is_wanted(session, "x", x, 0));
	fake_fdstore_loses = false;
	assert_int_equal(share_again(session, "x", x, false), GPUSHARE_OK);
	assert_false(is_wanted(session, "x", x, 0));
	assert_false(successor_seen(session, "x")->missing);
	assert_int_equal(peer_ask(session, &waits), GPUSHARE_OK);
	assert_int_equal(fake_fdstore_count(), 1);
	assert_int_equal(share_again(session, "x", x, false), GPUSHARE_OK); /* said twice */
	assert_int_equal(fake_fdstore_count(), 1);
	assert_int_equal(peer_registry->state.users.fds, 1);
}

static void an_attacher_brings_back_what_the_owner_left(void **state)
{
	pid_t other = successor_process(), third = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(getpid());
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t x = share(owner, "x", KEEP);

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	memcpy(key, a->key, sizeof(key));
	successor_end(other);
	successor_start();
	assert_true(successor_seen(successor_connect(third), "x")->missing);
	assert_true(peer_answer.body.lookup.buffer.owner_gone);
	a = successor_resume(getpid(), key);
	assert_true(is_wanted(a, "x", x, 2));
	assert_int_equal(share_again(a, "x", x, true), GPUSHARE_OK);
	assert_false(successor_seen(a, "x")->missing);
	assert_true(successor_seen(a, "x")->owner_gone);
	assert_int_equal(successor_seen(a, "x")->owner_pid, other);
	assert_int_equal(successor_seen(a, "x")->attachers, 2);
	registry_disconnect(peer_registry, a);
	assert_int_equal(peer_registry->state.store.count, 1); /* it is kept */
	assert_int_equal(peer_attach(successor_connect(third), "x"), GPUSHARE_OK);
	successor_end(third);
}

static void an_attacher_may_be_before_the_owner(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(getpid());
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE], owners[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t x = share(owner, "x", KEEP);

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	memcpy(key, a->key, sizeof(key));
	memcpy(owners, owner->key, sizeof(owners));
	successor_start();
	a = successor_resume(getpid(), key);
	assert_int_equal(share_again(a, "x", x, true), GPUSHARE_OK);
	assert_false(successor_seen(a, "x")->missing);
	assert_false(successor_seen(a, "x")->owner_gone); /* that is alive */
	owner = successor_resume(other, owners);
	assert_false(is_wanted(owner, "x", x, 0));
	assert_int_equal(peer_withdraw(owner, "x", x), GPUSHARE_OK);
	assert_true(successor_seen(a, "x")->owner_gone);
	successor_end(other);
}

/* Without records nothing is known but by who tells it. */
static void a_stranded_one_stands_again(void **state)
{
	pid_t other = successor_process(), third = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(getpid()), *b;
	request what = successor_share("x", KEEP);
	uint64_t x;

	(void)state;
	what.verb.share.buffer.ttl_s = 50;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	x = peer_answer.body.share.generation;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	registry_let_go(peer_registry, false);
	successor_start();
	assert_int_equal(peer_registry->state.store.count, 0);
	a = successor_connect(getpid());
	b = successor_connect(third);
	assert_true(is_wanted(a, "x", x, 1));
	assert_true(is_wanted(b, "x", x, 3));
	what = successor_share("x", KEEP);
	what.verb.share.again = x;
	what.verb.share.orphan = true;
	what.verb.share.buffer.ttl_s = 50;
	assert_int_equal(peer_ask(a, &what), GPUSHARE_OK);
	assert_int_equal(share_again(b, "x", x, true), GPUSHARE_OK); /* comes second */
	assert_true(successor_seen(a, "x")->owner_gone);
	assert_int_equal(successor_seen(a, "x")->owner_pid, 0);
	assert_in_range(successor_seen(a, "x")->ttl_left_s, 49, 50);
	assert_int_equal(successor_seen(a, "x")->attachers, 4);
	assert_true(peer_share(a, "y") > x);
	/* Its owner was there all the time. */
	owner = successor_connect(other);
	assert_true(is_wanted(owner, "x", x, 0));
	assert_int_equal(share_again(owner, "x", x, false), GPUSHARE_OK);
	assert_false(successor_seen(a, "x")->owner_gone);
	assert_int_equal(successor_seen(a, "x")->owner_pid, other);
	assert_int_equal(successor_seen(a, "x")->ttl_left_s, 0);
	successor_end(other);
	successor_end(third);
}

static void what_was_removed_is_not_brought_back(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(getpid());
	uint64_t x = share(owner, "x", KEEP), y = share(owner, "y", KEEP), now;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "y"), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(a, "x", 0), GPUSHARE_OK);
	for (int again = 0; again < 3; again++) {
		successor_start();
		a = successor_connect(getpid());
		assert_false(is_wanted(a, "x", x, 1));
		assert_int_equal(share_again(a, "x", x, true), GPUSHARE_E_NOT_FOUND);
		assert_true(is_wanted(a, "y", y, 1));
		registry_disconnect(peer_registry, a);
	}
	/* What another buffer's name is by now is not asked for either. */
	a = successor_connect(getpid());
	now = peer_share(a, "x");
	registry_let_go(peer_registry, false);
	successor_start();
	owner = successor_connect(other);
	request what = peer_share_of("x");
	what.verb.share.again = now;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	a = successor_connect(getpid());
	assert_false(is_wanted(a, "x", x, 1));
	assert_int_equal(share_again(a, "x", x, true), GPUSHARE_E_EXISTS);
	successor_end(other);
}

static void it_is_lost_with_the_last_who_had_it(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(getpid());
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t x = share(owner, "x", KEEP), z;

	(void)state;
	share(owner, "y", KEEP);
	z = share(a, "z", KEEP);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	memcpy(key, a->key, sizeof(key));
	successor_end(other);
	successor_start();
	a = successor_resume(getpid(), key);
	assert_int_equal(peer_lookup(a, "y", 0), GPUSHARE_E_NOT_FOUND); /* nobody has it */
	peer_assert_sentence("had it; it was lost with the registry");
	assert_true(successor_seen(a, "x")->missing);
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
	assert_int_equal(peer_lookup(a, "x", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("had it; it was lost with the registry");
	assert_int_equal(peer_withdraw(a, "z", z), GPUSHARE_OK); /* freed, and not to be kept */
	peer_lookup(a, "z", 0);
	peer_assert_sentence("had it; it was lost with the registry");
	assert_null(peer_registry->state.kept.root);
	assert_int_equal(peer_registry->state.users.total.held[LIMIT_kept_bytes], 0);
	assert_int_equal(peer_registry->state.store.count, 0);
	/* One whom nobody had counted on has it all the same. */
	a = successor_connect(getpid());
	assert_true(is_wanted(a, "x", x, 1));
	assert_int_equal(share_again(a, "x", x, true), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.attach.buffer.attachers, 2);
}

static void what_is_missing_is_replaced_not_adopted(void **state)
{
	pid_t other = successor_process(), third = successor_process();
	struct session *owner = successor_connect(other), *a = successor_connect(third);
	uint64_t x = share(owner, "x", KEEP);
	request what;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	successor_end(other);
	successor_start();
	a = successor_connect(getpid());
	what = successor_share("x", KEEP);
	what.verb.share.adopt = true;
	int file = peer_goes;
	peer_goes = -1;
	assert_int_equal(peer_ask(a, &what), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("nobody has brought its memory back yet");
	peer_goes = file;
	assert_int_equal(peer_ask(a, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.share.adopted);
	assert_true(peer_answer.body.share.generation > x);
	assert_false(successor_seen(a, "x")->missing);
	assert_int_equal(successor_seen(a, "x")->attachers, 0);
	successor_end(third);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, set_up, successor_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(the_owner_brings_it_back),
	    with_registry(an_attacher_brings_back_what_the_owner_left),
	    with_registry(an_attacher_may_be_before_the_owner),
	    with_registry(a_stranded_one_stands_again),
	    with_registry(what_was_removed_is_not_brought_back),
	    with_registry(it_is_lost_with_the_last_who_had_it),
	    with_registry(what_is_missing_is_replaced_not_adopted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
