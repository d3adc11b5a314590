/* SPDX-License-Identifier: MIT */
/* A process that left may still write to its slot, over a restart of the registry too. */
#include "unit.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "persist/save.h"
#include "ordered.h"
#include "successor.h"

static pid_t other;
static uint64_t generation;

static int set_up(void **state)
{
	int failed = successor_set_up(state);

	other = successor_process();
	generation = peer_share(successor_connect(getpid()), "x");
	return failed;
}

static int tear_down(void **state)
{
	successor_end(other);
	return successor_tear_down(state);
}

static struct session *attacher(pid_t pid)
{
	struct session *session = successor_connect(pid);

	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	return session;
}

static uint32_t joined_slot(struct session *session)
{
	assert_int_equal(ordered_ask(session, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	return peer_answer.body.order.slot;
}

/* As if 10 seconds had passed. */
static void cool(void)
{
	struct order *order = order_find(peer_registry, generation);

	for (int at = 0; at < ORDER_SLOTS; at++)
		order->slot[at].free_ns = 0;
}

static void a_slot_is_free_when_its_process_has_ended(void **state)
{
	struct session *a = attacher(other), *b = attacher(getpid());

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 0), GPUSHARE_OK);
	cool();
	assert_int_equal(joined_slot(b), 2);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, 1), GPUSHARE_OK);
	registry_disconnect(peer_registry, a); /* whose graph may be launched all the same */
	cool();
	assert_int_equal(joined_slot(b), 2);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, 1), GPUSHARE_OK);
	successor_end(other);
	assert_int_equal(joined_slot(b), 1);
}

/* Only a client that comes again has a slot to ask for. */
static void an_abandoned_slot_can_not_be_asked_for(void **state)
{
	request what = {.which_verb = gpushare_Request_order_tag};
	struct session *a = attacher(getpid()), *b = attacher(getpid());

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	registry_disconnect(peer_registry, a);
	strcpy(what.verb.order.name, "x");
	what.verb.order.generation = generation;
	what.verb.order.roles = ORDER_CONSUMES;
	what.verb.order.slot = 1;
	assert_int_equal(peer_ask(b, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 2);
}

/* It is the process's no longer than its GPU has work to do there. */
static void a_slot_is_free_when_the_last_release_has_come(void **state)
{
	struct session *a = attacher(getpid());

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	atomic_store(&ordered_page(generation)->slot[0].released, 3);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 5 + 1), GPUSHARE_OK);
	successor_start();
	cool();
	a = attacher(getpid());
	assert_int_equal(joined_slot(a), 2);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 1), GPUSHARE_OK);
	atomic_store(&ordered_page(generation)->slot[0].released, 5);
	assert_int_equal(joined_slot(a), 1);
}

static void a_quarantined_slot_stays_so_over_restarts(void **state)
{
	struct session *a = attacher(other);

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 0), GPUSHARE_OK);
	assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_OK);
	for (int again = 0; again < 3; again++) {
		successor_start();
		cool();
		a = attacher(getpid());
		assert_int_equal(joined_slot(a), 2);
		assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 1), GPUSHARE_OK);
	}
	successor_end(other);
	successor_start();
	cool();
	assert_int_equal(joined_slot(attacher(getpid())), 1);
}

/* Whoever's GPU comes to its wait late is let through too. */
static void a_quarantined_slot_is_marked_while_its_process_lives(void **state)
{
	struct session *a = attacher(other);
	struct order_page *page;
	int64_t now;

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	page = ordered_page(generation);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 0), GPUSHARE_OK);
	now = clock_ns() + 60 * NS_PER_S;
	assert_true(order_tick(peer_registry, now) != INT64_MAX);
	atomic_store(&page->slot[0].released, 2); /* the graph was launched */
	assert_true(order_tick(peer_registry, now) != INT64_MAX);
	assert_int_equal(page->slot[0].released, 2 | ORDER_GONE_BIT);
	successor_end(other);
	assert_int_equal(order_tick(peer_registry, now + 20 * NS_PER_S), INT64_MAX);
}

/* It has not said that its GPU is done with it. */
static void a_living_consumer_whose_connection_ended_keeps_its_slot(void **state)
{
	struct session *a = attacher(other);

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	registry_disconnect(peer_registry, a);
	cool();
	a = attacher(getpid());
	assert_int_equal(joined_slot(a), 2);
	successor_end(other);
	assert_int_equal(joined_slot(attacher(getpid())), 1);
}

/* A process of another pid namespace, as a container's. */
static struct session *foreigner(int32_t own_pid)
{
	struct session *session = successor_connect(0);

	process_says(&session->peer, 4026532001, own_pid, 99);
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	return session;
}

/* Whether it lives can't be seen once its last session has ended. */
static void an_unsettled_slot_of_an_invisible_process_is_kept(void **state)
{
	struct session *a = foreigner(7);

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, ORDER_UNSETTLED),
			 GPUSHARE_OK);
	registry_disconnect(peer_registry, a); /* its graph may be launched all the same */
	cool();
	a = foreigner(8);
	assert_int_equal(joined_slot(a), 2);
	registry_disconnect(peer_registry, a); /* dead, or as good as that */
	cool();
	assert_int_equal(joined_slot(attacher(getpid())), 2);
}

static uint32_t resumed_slot(struct session *session, uint32_t slot)
{
	uint64_t id = ordered_page(generation)->id;

	assert_int_equal(ordered_bring(session, "x", generation, ORDER_CONSUMES, id, slot, -1),
			 GPUSHARE_OK);
	return peer_answer.body.order.slot;
}

static void only_its_own_slot_is_resumed(void **state)
{
	struct session *a = foreigner(7), *b = attacher(other);

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	registry_disconnect(peer_registry, a);
	cool();
	assert_int_equal(joined_slot(b), 1); /* it was free again */
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, ORDER_UNSETTLED),
			 GPUSHARE_OK);
	a = foreigner(7);
	assert_int_equal(resumed_slot(a, 1), 2);
	registry_disconnect(peer_registry, a);
	assert_int_equal(resumed_slot(foreigner(7), 2), 2);
	assert_int_equal(resumed_slot(b, 1), 1);
}

/* Whose GPU has nothing more to do: exec() has ended that. */
static void a_program_ends_with_exec(void **state)
{
	struct session *a = attacher(other), *b = attacher(getpid());
	struct order_page *page;

	(void)state;
	a->peer.stack++; /* of the program before */
	assert_int_equal(joined_slot(a), 1);
	page = ordered_page(generation);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&page->next, 4);
	atomic_store(&page->published, 2);
	registry_disconnect(peer_registry, a);
	cool();
	assert_int_equal(joined_slot(b), 1);
	a = attacher(other); /* begins anew */
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->next, 2);
	atomic_store(&page->next, 3);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_PUBLISHES, 0), GPUSHARE_OK);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
}

static void a_process_that_can_not_be_read_may_live(void **state)
{
	uint64_t number = participant_number(&attacher(other)->peer);
	struct rlimit before, none;
	bool ended;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ended = participant_has_ended(number, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_false(ended);
	assert_false(participant_has_ended(number, 0));
	assert_true(participant_has_ended(number - (UINT64_C(1) << 22), 0)); /* started before */
	successor_end(other);
	assert_true(participant_has_ended(number, 0));
}

static void a_living_publisher_whose_connection_ended_is_waited_for(void **state)
{
	struct session *a = attacher(other), *b = attacher(getpid());
	struct order_page *page;

	(void)state;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	page = ordered_page(generation);
	registry_disconnect(peer_registry, a);
	/* nothing was under way */
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_PUBLISHES, 0), GPUSHARE_OK);
	a = attacher(other);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&page->next, 2);
	atomic_store(&page->published, 1);
	registry_disconnect(peer_registry, a);
	assert_true(order_is_gone(page));
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	peer_assert_sentence("may still write to it");
	/* it itself goes on */
	a = attacher(other);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->next, 2);
	registry_disconnect(peer_registry, a);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	successor_end(other);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->next, 1);
}

static void a_publisher_is_waited_for_over_a_restart(void **state)
{
	struct session *a = attacher(other);

	(void)state;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&ordered_page(generation)->next, 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_PUBLISHES, 0), GPUSHARE_OK);
	successor_start();
	a = attacher(getpid());
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	order_find(peer_registry, generation)->under_way_ns = 0;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    T(a_slot_is_free_when_its_process_has_ended),
	    T(an_abandoned_slot_can_not_be_asked_for),
	    T(a_slot_is_free_when_the_last_release_has_come),
	    T(a_quarantined_slot_stays_so_over_restarts),
	    T(a_quarantined_slot_is_marked_while_its_process_lives),
	    T(a_living_consumer_whose_connection_ended_keeps_its_slot),
	    T(an_unsettled_slot_of_an_invisible_process_is_kept),
	    T(only_its_own_slot_is_resumed),
	    T(a_program_ends_with_exec),
	    T(a_process_that_can_not_be_read_may_live),
	    T(a_living_publisher_whose_connection_ended_is_waited_for),
	    T(a_publisher_is_waited_for_over_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
