/* SPDX-License-Identifier: MIT */
/* Who counts as living after a restart, besides by pid and start time. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "save.h"
#include "ordered.h"
#include "restore.h"
#include "successor.h"

#define KEEP GPUSHARE_FLAG_KEEP

/* A process of another pid namespace. */
static struct session *connect_unseen(int32_t own_pid, const uint8_t *key)
{
	static uint32_t last_id = 1000;
	request what = {.which_verb = gpushare_Request_hello_tag};
	struct process process = {.uid = getuid()};
	struct session *session = registry_connect(peer_registry, ++last_id, &process);

	assert_non_null(session);
	what.verb.hello.protocol = GPUSHARE_PROTOCOL;
	what.verb.hello.has_self = true;
	what.verb.hello.self.pid_namespace = 4026532000u;
	what.verb.hello.self.pid = own_pid;
	what.verb.hello.self.started = 77;
	if (key)
		memcpy(what.verb.hello.resume, key, GPUSHARE_SESSION_KEY_SIZE);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return session;
}

static void who_is_not_visible_has_a_moment(void **state)
{
	struct session *stays = connect_unseen(2, NULL), *goes = connect_unseen(3, NULL);
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t generation = peer_share(stays, "stays");
	request kept;
	uint32_t id;

	(void)state;
	memcpy(key, stays->key, sizeof(key));
	peer_share(goes, "goes");
	kept = successor_share("kept", KEEP);
	assert_int_equal(peer_ask(goes, &kept), GPUSHARE_OK);
	assert_int_equal(peer_attach(goes, "stays"), GPUSHARE_OK);
	successor_start();
	assert_int_equal(peer_registry->state.sessions.disconnected, 2);
	assert_int_equal(restore_next_dead(peer_registry), 0);
	assert_in_range(peer_registry->unseen_until_ns, clock_ns() + LIMIT_UNSEEN_S * NS_PER_S / 2,
			clock_ns() + LIMIT_UNSEEN_S * NS_PER_S);
	stays = connect_unseen(3, key); /* another one, that has read the key */
	assert_false(peer_answer.body.hello.resumed);
	registry_disconnect(peer_registry, stays);
	stays = connect_unseen(2, key);
	assert_true(peer_answer.body.hello.resumed);
	assert_int_equal(successor_seen(stays, "stays")->attachers, 1);
	peer_registry->unseen_until_ns = clock_ns();
	while ((id = restore_next_dead(peer_registry)))
		registry_disconnect(peer_registry,
				    session_find(&peer_registry->state.sessions, id));
	assert_int_equal(peer_registry->state.sessions.disconnected, 0);
	assert_int_equal(peer_lookup(stays, "goes", 0), GPUSHARE_E_NOT_FOUND);
	assert_true(successor_seen(stays, "kept")->owner_gone);
	assert_int_equal(successor_seen(stays, "stays")->attachers, 0);
	assert_int_equal(peer_answer.body.lookup.buffer.generation, generation);
}

/* The same process, another program: what it had went with the first. */
static void who_has_become_another_program_is_gone(void **state)
{
	pid_t other = successor_process(), same = successor_process();
	struct session *owner = successor_connect(other), *a;

	(void)state;
	assert_int_not_equal(owner->peer.stack, 0);
	owner->peer.stack++;
	peer_share(owner, "x");
	a = successor_connect(same);
	a->peer.stack = 0; /* it could not be told */
	peer_share(a, "y");
	peer_share(successor_connect(getpid()), "z");
	successor_start();
	assert_int_equal(peer_registry->state.sessions.disconnected, 2);
	assert_int_equal(peer_registry->state.store.count, 2);
	assert_int_equal(peer_lookup(successor_connect(other), "x", 0), GPUSHARE_E_NOT_FOUND);
	successor_end(other);
	successor_end(same);
}

/* A hello of who is seen as `pid`, and says that it is another one elsewhere. */
static struct session *connect_as(pid_t pid, uint64_t own_namespace, int32_t own_pid,
				  uint64_t own_started, const uint8_t *key)
{
	static uint32_t last_id = 2000;
	request what = {.which_verb = gpushare_Request_hello_tag};
	struct process process;
	struct session *session;

	process_read(pid, getuid(), &process);
	session = registry_connect(peer_registry, ++last_id, &process);
	assert_non_null(session);
	what.verb.hello.protocol = GPUSHARE_PROTOCOL;
	what.verb.hello.has_self = true;
	what.verb.hello.self.pid_namespace = own_namespace;
	what.verb.hello.self.pid = own_pid;
	what.verb.hello.self.started = own_started;
	if (key)
		memcpy(what.verb.hello.resume, key, GPUSHARE_SESSION_KEY_SIZE);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return session;
}

#define ELSEWHERE UINT64_C(4026532001)

static bool owns(struct session *session, const char *name)
{
	assert_int_equal(peer_attach(session, name), GPUSHARE_OK);
	return peer_answer.body.attach.own;
}

static bool published_last(const struct order *order, const struct session *session)
{
	return order->page->publisher == participant_number(&session->peer);
}

/* A registry in a container, followed by one outside, or the other way round: a number of its records may
 * be nobody's here, or another's. */
static void pids_of_another_namespace_are_nobodys(void **state)
{
	pid_t dead = successor_process(), alive = successor_process();
	struct process was;
	struct session *seen, *other, *gone;
	const struct order *order;
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t generation;
	request kept;
	uint32_t id;

	(void)state;
	peer_registry->pid_namespace = ELSEWHERE;
	save_all(peer_registry);
	process_read(dead, getuid(), &was);
	seen = connect_as(dead, ELSEWHERE, dead, was.started, NULL);
	memcpy(key, seen->key, sizeof(key));
	generation = peer_share(seen, "x");
	assert_int_equal(ordered_ask(seen, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	peer_share(successor_connect(alive), "y"); /* which says nothing of itself */
	gone = successor_connect(alive);
	kept = successor_share("kept", KEEP);
	assert_int_equal(peer_ask(gone, &kept), GPUSHARE_OK);
	registry_disconnect(peer_registry, gone);
	assert_int_equal(store_find(&peer_registry->state.store, "kept")->info.owner_pid, alive);
	successor_end(dead);
	successor_start();
	for (const struct entry *entry = store_after(&peer_registry->state.store, ""); entry;
	     entry = store_after(&peer_registry->state.store, entry->info.name)) {
		assert_int_equal(entry->owner.pid, 0);
		assert_int_equal(entry->info.owner_pid, 0);
		assert_int_equal(entry->info.owner_started, 0);
	}
	assert_int_equal(peer_registry->state.sessions.disconnected, 2);
	order = order_find(peer_registry, generation);
	assert_true(participant_is_here(peer_registry, order->page->publisher));
	other = connect_as(getpid(), ELSEWHERE, dead, was.started + 1, key);
	assert_false(published_last(order, other));
	assert_false(peer_answer.body.hello.resumed);
	registry_disconnect(peer_registry, other);
	seen = connect_as(getpid(), ELSEWHERE, dead, was.started, key);
	assert_true(peer_answer.body.hello.resumed);
	assert_int_equal(successor_seen(seen, "x")->owner_pid, getpid());
	assert_true(published_last(order, seen));
	assert_int_equal(peer_attach(seen, "x"), GPUSHARE_OK);
	assert_true(peer_answer.body.attach.own);
	peer_registry->unseen_until_ns = clock_ns();
	while ((id = restore_next_dead(peer_registry)))
		registry_disconnect(peer_registry,
				    session_find(&peer_registry->state.sessions, id));
	assert_int_equal(peer_lookup(seen, "y", 0), GPUSHARE_E_NOT_FOUND);
	successor_start(); /* it is one of ours from then on */
	assert_int_equal(peer_registry->state.sessions.disconnected, 1);
	assert_int_equal(session_find_key(&peer_registry->state.sessions, key)->peer.pid, getpid());
	successor_end(alive);
}

/* It has come back by one of its connections, and is no rival to what it has by the others. */
static void one_process_is_one_by_all_its_connections(void **state)
{
	struct session *one, *other;
	const struct entry *entry;
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	uint64_t x, y;
	struct process was;
	uint32_t id;

	(void)state;
	peer_registry->pid_namespace = ELSEWHERE;
	save_all(peer_registry);
	process_read(getpid(), getuid(), &was);
	one = connect_as(getpid(), ELSEWHERE, 7, was.started, NULL);
	other = connect_as(getpid(), ELSEWHERE, 7, was.started, NULL);
	one->peer.pid = other->peer.pid = 7; /* as it was seen there */
	memcpy(key, one->key, sizeof(key));
	x = peer_share(one, "x");
	y = peer_share(other, "y");
	assert_int_equal(ordered_ask(other, "y", y, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&ordered_page(y)->next, 5); /* and a GPU is at it */
	peer_share(connect_as(getpid(), ELSEWHERE, 8, was.started, NULL), "theirs");
	successor_start();
	assert_int_equal(peer_registry->state.sessions.disconnected, 3);
	one = connect_as(getpid(), ELSEWHERE, 7, was.started, key);
	assert_true(peer_answer.body.hello.resumed);
	assert_int_equal(peer_registry->state.sessions.disconnected, 2);
	assert_true(owns(one, "x"));
	assert_true(owns(one, "y"));
	assert_false(owns(one, "theirs"));
	assert_int_equal(successor_seen(one, "y")->owner_pid, getpid());
	assert_int_equal(ordered_ask(one, "y", y, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(atomic_load(&ordered_page(y)->next), 5);
	peer_registry->unseen_until_ns = clock_ns();
	while ((id = restore_next_dead(peer_registry)))
		registry_disconnect(peer_registry,
				    session_find(&peer_registry->state.sessions, id));
	entry = store_find(&peer_registry->state.store, "y");
	assert_non_null(entry);
	assert_true(process_lives(&entry->owner));
	assert_null(store_find(&peer_registry->state.store, "theirs"));
	assert_int_equal(successor_seen(one, "x")->generation, x);
}

/* A page follows the number of its publisher, as each registry sees that. */
static void a_publishers_number_outlasts_several_restarts(void **state)
{
	struct session *publisher;
	const struct order *order;
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	struct process was;
	uint64_t generation;

	(void)state;
	peer_registry->pid_namespace = ELSEWHERE;
	save_all(peer_registry);
	process_read(getpid(), getuid(), &was);
	publisher = connect_as(getpid(), ELSEWHERE, 7, was.started, NULL);
	memcpy(key, publisher->key, sizeof(key));
	generation = peer_share(publisher, "x");
	assert_int_equal(ordered_ask(publisher, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	for (uint64_t elsewhere = ELSEWHERE + 1; elsewhere < ELSEWHERE + 4; elsewhere++) {
		successor_start();
		order = order_find(peer_registry, generation);
		assert_true(participant_is_here(peer_registry, order->page->publisher));
		peer_registry->pid_namespace = elsewhere;
		save_all(peer_registry);
	}
	successor_start();
	publisher = connect_as(getpid(), ELSEWHERE, 7, was.started, key);
	assert_true(peer_answer.body.hello.resumed);
	order = order_find(peer_registry, generation);
	assert_true(published_last(order, publisher));
	assert_int_equal(ordered_ask(publisher, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	successor_start(); /* it is one of ours from then on, by its number of here */
	order = order_find(peer_registry, generation);
	assert_true(participant_is_here(peer_registry, order->page->publisher));
}

#define with_registry(test) \
	cmocka_unit_test_setup_teardown(test, successor_set_up, successor_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(who_is_not_visible_has_a_moment),
	    with_registry(who_has_become_another_program_is_gone),
	    with_registry(pids_of_another_namespace_are_nobodys),
	    with_registry(one_process_is_one_by_all_its_connections),
	    with_registry(a_publishers_number_outlasts_several_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
