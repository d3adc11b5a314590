/* SPDX-License-Identifier: MIT */
/* Order pages, and who is what to them, over a registry that is killed. */
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

static void the_living_keep_their_roles(void **state)
{
	pid_t other = successor_process();
	struct lease *owner = successor_connect(getpid()), *a = successor_connect(other);
	uint64_t generation = peer_share(owner, "x"), id;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	atomic_store(&ordered_page(generation)->published, 5);
	id = ordered_page(generation)->id;
	for (int again = 0; again < 3; again++) {
		successor_start();
		assert_int_equal(ordered_page(generation)->id, id);
		assert_int_equal(ordered_page(generation)->published, 5);
		assert_false(order_is_gone(ordered_page(generation)));
		assert_true(order_find(peer_registry, generation)->place[0].taken);
	}
	/* it ends afterwards as it would have before */
	successor_end(other);
	registry_disconnect(peer_registry,
			    order_find(peer_registry, generation)->players->next->lease);
	assert_int_equal(ordered_page(generation)->slot[0].state, ORDER_SLOT_LEFT);
	assert_false(order_is_gone(ordered_page(generation)));
}

static void who_died_meanwhile_is_said_to_have_gone(void **state)
{
	pid_t other = successor_process(), third = successor_process();
	struct lease *owner = successor_connect(getpid()), *a = successor_connect(other),
		     *b = successor_connect(third);
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	successor_end(other);
	successor_start();
	assert_true(order_is_gone(ordered_page(generation)));
	assert_int_equal(ordered_page(generation)->slot[0].state, ORDER_SLOT_ACTIVE);
	assert_non_null(peer_registry->marking);
	successor_end(third);
	successor_start();
	assert_true(order_is_gone(ordered_page(generation)));
	assert_int_equal(ordered_page(generation)->slot[0].state, ORDER_SLOT_LEFT);
}

static void an_owner_who_died_takes_the_page_along(void **state)
{
	pid_t other = successor_process();
	struct lease *owner = successor_connect(other), *a = successor_connect(getpid());
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(fake_fdstore_count(), 1);
	successor_end(other);
	successor_start();
	assert_null(order_find(peer_registry, generation));
	order_tick(peer_registry, clock_ns() + 20 * NS_PER_S);
	assert_null(peer_registry->orders);
	assert_int_equal(fake_fdstore_count(), 0);
}

static void a_page_that_was_lost_is_asked_for(void **state)
{
	struct lease *owner = successor_connect(getpid());
	uint64_t generation = peer_share(owner, "x");
	uint8_t key[GPUSHARE_LEASE_SIZE];
	request what = {.which_verb = gpushare_Request_order_tag};

	(void)state;
	memcpy(key, owner->key, sizeof(key));
	fake_fdstore_loses = true;
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	what.verb.order.again = peer_answer.body.order.id;
	successor_start();
	fake_fdstore_loses = false;
	owner = successor_resume(getpid(), key);
	assert_non_null(owner->players);
	assert_null(order_find(peer_registry, generation)->page);
	strcpy(what.verb.order.name, "x");
	what.verb.order.generation = generation;
	what.verb.order.roles = ORDER_PUBLISHES;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, 0);
	/* somebody new is not given another one, which nobody would publish on */
	assert_int_equal(ordered_ask(owner, "x", generation, 0), GPUSHARE_E_TIMED_OUT);
	peer_assert_sentence("given it back");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, successor_set_up, successor_tear_down)
	    T(the_living_keep_their_roles),
	    T(who_died_meanwhile_is_said_to_have_gone),
	    T(an_owner_who_died_takes_the_page_along),
	    T(a_page_that_was_lost_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
