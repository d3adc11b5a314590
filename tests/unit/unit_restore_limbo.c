/* SPDX-License-Identifier: MIT */
/* What has no name any more and is attached, over a restart of the registry. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "fake_fdstore.h"
#include "restore.h"
#include "successor.h"

static uint8_t key[GPUSHARE_SESSION_KEY_SIZE]; /* of owner() */

static struct session *owner(void)
{
	struct session *session = successor_connect(getpid());

	memcpy(key, session->key, sizeof(key));
	return session;
}

static bool free_into_limbo(struct session *session, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(what.verb.withdraw.name, name);
	what.verb.withdraw.generation = generation;
	what.verb.withdraw.limbo = true;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.withdraw.limbo;
}

/* Whether nobody has that one of the session's attached any more. */
static bool has_been_left(struct session *session, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_limbo_tag};

	what.verb.limbo.generations[what.verb.limbo.generations_count++] = generation;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.limbo.generations_count;
}

/* Of all that is shared it is told that; how much of it the registry wants. */
static unsigned int asked_for(struct session *session, const char *name, uint64_t generation)
{
	request told = {0};

	successor_tell(&told, name, generation, 0);
	told.verb.resync.last = true;
	assert_int_equal(peer_ask(session, &told), GPUSHARE_OK);
	return peer_answer.body.resync.wanted_count;
}

/* Freed, and held. */
static uint64_t held_count(void)
{
	const struct entry *entry;
	uint64_t count = 0;

	for (entry = store_deferred_after(&peer_registry->store, 0); entry;
	     entry = store_deferred_after(&peer_registry->store, entry->info.generation))
		count += entry->info.in_limbo;
	return count;
}

static void what_is_freed_waits_for_its_attachers(void **state)
{
	pid_t other = successor_process();
	struct session *session = owner(), *a = successor_connect(other);
	uint64_t first = peer_share(session, "x"), second;
	uint8_t others[GPUSHARE_SESSION_KEY_SIZE];

	(void)state;
	memcpy(others, a->key, sizeof(others));
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_true(free_into_limbo(session, "x", first));
	second = peer_share(session, "x"); /* the name is free */
	for (int again = 0; again < 3; again++) {
		successor_start();
		assert_int_equal(held_count(), 1);
		assert_int_equal(store_find_deferred(&peer_registry->store, first)->info.attachers,
				 1);
		session = successor_resume(getpid(), key);
		assert_true(peer_answer.body.hello.resumed);
		assert_int_equal(peer_registry->sessions.disconnected, 1);
		assert_false(has_been_left(session, first));
		assert_int_equal(successor_seen(session, "x")->generation, second);
		assert_int_equal(successor_seen(session, "x")->attachers, 0);
	}
	/* Told of again, it is asked for by nobody, and counts. */
	request told = {0};
	successor_tell(&told, "x", first, 2);
	a = successor_resume(other, others);
	assert_int_equal(peer_ask(a, &told), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.resync.wanted_count, 0);
	assert_int_equal(store_find_deferred(&peer_registry->store, first)->info.attachers, 2);
	assert_int_equal(peer_detach(a, "x", first), GPUSHARE_OK);
	assert_false(has_been_left(session, first));
	successor_end(other);
	successor_start();
	session = successor_resume(getpid(), key);
	assert_true(has_been_left(session, first));
	assert_true(has_been_left(session, first));
	assert_int_equal(held_count(), 0);
	successor_start();
	assert_int_equal(held_count(), 0);
	assert_int_equal(peer_registry->store.count, 1);
}

static void what_is_unlinked_stays_nameless(void **state)
{
	pid_t other = successor_process();
	struct session *session = owner(), *a = successor_connect(other);
	uint64_t x = peer_share(session, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(a, "x", 0), GPUSHARE_OK);
	successor_start();
	assert_int_equal(peer_registry->store.nameless, 1);
	assert_int_equal(peer_registry->store.count, 0);
	session = successor_resume(getpid(), key);
	assert_true(peer_answer.body.hello.resumed);
	assert_int_equal(asked_for(session, "x", x), 0);
	assert_true(free_into_limbo(session, "x", x));
	successor_start();
	assert_int_equal(held_count(), 1);
	assert_true(peer_share(owner(), "y") > x);
	successor_end(other);
}

/* Its owner, who was not told, shares it still for all that he knows: it is not brought back. */
static void what_is_unlinked_does_not_come_back(void **state)
{
	struct session *session = owner();
	uint64_t x = peer_share(session, "x"), k;
	request keep = successor_share("k", GPUSHARE_FLAG_KEEP);

	(void)state;
	assert_int_equal(peer_ask(session, &keep), GPUSHARE_OK);
	k = peer_answer.body.share.generation;
	assert_int_equal(peer_withdraw(session, "x", 0), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(session, "k", 0), GPUSHARE_OK);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 0);
	assert_int_equal(peer_registry->fdtable.count, 0);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(asked_for(session, "x", x) + asked_for(session, "k", k), 0);
		assert_int_equal(peer_registry->store.count, 0);
		assert_int_equal(held_count(), 0);
		successor_start();
		session = successor_resume(getpid(), key);
	}
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 0);
	assert_int_equal(peer_withdraw(session, "k", k), GPUSHARE_OK);
	assert_false(free_into_limbo(session, "x", x));
	assert_int_equal(peer_registry->store.nameless, 0);
	assert_null(registry_disconnect(peer_registry, session));
}

/* One thread has taken it off its list and is about to say so, while another one tells of the rest. */
static void what_is_being_freed_gets_there_all_the_same(void **state)
{
	pid_t other = successor_process();
	struct session *session = owner(), *a = successor_connect(other);
	uint64_t x = peer_share(session, "x"), y = peer_share(session, "y");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	successor_start();
	session = successor_resume(getpid(), key);
	assert_int_equal(asked_for(session, "y", y), 0);
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("withdrew it");
	assert_int_equal(held_count(), 0);
	for (int again = 0; again < 2; again++) {
		assert_true(free_into_limbo(session, "x", x));
		assert_int_equal(store_find_deferred(&peer_registry->store, x)->info.attachers, 1);
		successor_start();
		session = successor_resume(getpid(), key);
		assert_int_equal(held_count(), 1);
	}
	successor_end(other);
}

/* It was on its way to the list, somebody had it attached already, and the next telling has it. */
static void what_was_left_out_is_back(void **state)
{
	pid_t other = successor_process();
	struct session *session = owner(), *a = successor_connect(other);
	uint64_t x = peer_share(session, "x");
	request again = peer_share_of("x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	for (int restarts = 0; restarts < 2; restarts++) {
		assert_int_equal(asked_for(session, "y", x + 1), 1);
		assert_int_equal(peer_registry->store.count, 0);
		successor_start();
		session = successor_resume(getpid(), key);
		assert_int_equal(asked_for(session, "x", x), 1);
		again.verb.share.again = x;
		assert_int_equal(peer_ask(session, &again), GPUSHARE_OK);
		assert_int_equal(successor_seen(session, "x")->attachers, 1);
		assert_int_equal(successor_seen(session, "x")->generation, x);
		assert_int_equal(peer_registry->store.nameless, 0);
		assert_int_equal(asked_for(session, "x", x), 0);
	}
	successor_end(other);
}

static void it_ends_with_its_owner(void **state)
{
	pid_t other = successor_process();
	struct session *session = successor_connect(other), *a = owner();
	uint64_t x = peer_share(session, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_true(free_into_limbo(session, "x", x));
	successor_end(other);
	successor_start();
	assert_int_equal(peer_registry->store.nameless, 0);
	a = successor_resume(getpid(), key);
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
	assert_null(registry_disconnect(peer_registry, a));
}

#define with_registry(test) \
	cmocka_unit_test_setup_teardown(test, successor_set_up, successor_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(what_is_freed_waits_for_its_attachers),
	    with_registry(what_is_unlinked_stays_nameless),
	    with_registry(what_is_unlinked_does_not_come_back),
	    with_registry(what_is_being_freed_gets_there_all_the_same),
	    with_registry(what_was_left_out_is_back),
	    with_registry(it_ends_with_its_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
