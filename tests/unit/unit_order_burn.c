/* SPDX-License-Identifier: MIT */
/* What a process that left may still do to an order page, as long as it lives: over a restart too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <unistd.h>

#include "clock.h"
#include "fake_fdstore.h"
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

static struct lease *attacher(pid_t pid)
{
	struct lease *lease = successor_connect(pid);

	assert_int_equal(peer_attach(lease, "x"), GPUSHARE_OK);
	return lease;
}

static uint32_t joined_slot(struct lease *lease)
{
	assert_int_equal(ordered_ask(lease, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	return peer_answer.body.order.slot;
}

/* As if what cools had cooled. */
static void cool(void)
{
	struct order *order = order_find(peer_registry, generation);

	for (int at = 0; at < ORDER_SLOTS; at++)
		order->place[at].free_ns = 0;
}

static void a_burned_slot_is_free_when_its_process_has_gone(void **state)
{
	struct lease *a = attacher(other), *b = attacher(getpid());

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, true), GPUSHARE_OK);
	cool();
	assert_int_equal(joined_slot(b), 2);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, false), GPUSHARE_OK);
	registry_disconnect(peer_registry, a); /* whose graph may be launched all the same */
	cool();
	assert_int_equal(joined_slot(b), 2);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, false), GPUSHARE_OK);
	successor_end(other);
	assert_int_equal(joined_slot(b), 1);
}

static void a_burned_slot_stays_so_over_restarts(void **state)
{
	struct lease *a = attacher(other);

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, true), GPUSHARE_OK);
	assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_OK);
	for (int again = 0; again < 3; again++) { /* the journal is written anew at each start */
		successor_start();
		cool();
		a = attacher(getpid());
		assert_int_equal(joined_slot(a), 2);
		assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, false),
				 GPUSHARE_OK);
	}
	successor_end(other);
	successor_start();
	cool();
	assert_int_equal(joined_slot(attacher(getpid())), 1);
}

/* It has not said that its GPU is done with it. */
static void a_living_consumer_whose_connection_ended_keeps_its_slot(void **state)
{
	struct lease *a = attacher(other);

	(void)state;
	assert_int_equal(joined_slot(a), 1);
	registry_disconnect(peer_registry, a);
	cool();
	a = attacher(getpid());
	assert_int_equal(joined_slot(a), 2);
	successor_end(other);
	assert_int_equal(joined_slot(attacher(getpid())), 1);
}

static void a_living_publisher_whose_connection_ended_is_waited_for(void **state)
{
	struct lease *a = attacher(other), *b = attacher(getpid());
	struct order_page *page;

	(void)state;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	page = ordered_page(generation);
	registry_disconnect(peer_registry, a);
	/* nothing was under way */
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_PUBLISHES, false), GPUSHARE_OK);
	a = attacher(other);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&page->next, 2);
	atomic_store(&page->published, 1);
	registry_disconnect(peer_registry, a);
	assert_true(order_is_gone(page));
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	peer_assert_sentence("may still be at it");
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
	struct lease *a = attacher(other);

	(void)state;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&ordered_page(generation)->next, 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_PUBLISHES, true), GPUSHARE_OK);
	successor_start();
	a = attacher(getpid());
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	order_find(peer_registry, generation)->settled_ns = 0;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    T(a_burned_slot_is_free_when_its_process_has_gone),
	    T(a_burned_slot_stays_so_over_restarts),
	    T(a_living_consumer_whose_connection_ended_keeps_its_slot),
	    T(a_living_publisher_whose_connection_ended_is_waited_for),
	    T(a_publisher_is_waited_for_over_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
