/* SPDX-License-Identifier: MIT */
/* Who is what to the order of a buffer, and whose waiters are let through, without a socket. */
#include "unit.h"

#include <unistd.h>

#include "os/clock.h"
#include "ordered.h"

static struct session *attacher(uint32_t id, const char *name)
{
	struct session *session = peer_new(id, (int32_t)id + 10, "attacher");

	assert_int_equal(peer_attach(session, name), GPUSHARE_OK);
	return session;
}

static void only_who_has_it_gets_its_page(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *other = peer_new(2, 12, "other");
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	assert_int_equal(ordered_ask(other, "x", generation, 0), GPUSHARE_E_DENIED);
	peer_assert_sentence("neither shares");
	assert_int_equal(ordered_ask(other, "x", generation + 1, 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("another buffer");
	assert_int_equal(ordered_ask(other, "nothing", 1, 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(ordered_ask(owner, "x", generation, 4), GPUSHARE_E_PROTOCOL);
	assert_null(order_find(peer_registry, generation));
	assert_int_equal(ordered_ask(owner, "x", generation, 0), GPUSHARE_OK);
	assert_int_not_equal(peer_answer.body.order.id, 0);
	assert_int_equal(peer_answer.body.order.slot, 0);
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_int_equal(ordered_ask(other, "x", generation, 0), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, ordered_page(generation)->id);
	assert_int_equal(peer_lookup(other, "x", 0), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.lookup.buffer.sequence, 0);
	atomic_store(&ordered_page(generation)->published, 7);
	assert_int_equal(peer_lookup(other, "x", 0), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.lookup.buffer.sequence, 7);
}

static void one_process_publishes(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *again, *a;
	uint64_t generation = peer_share(owner, "x");
	struct order_page *page;

	(void)state;
	a = attacher(2, "x");
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	page = ordered_page(generation);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	peer_assert_sentence("process 12 (attacher)");
	/* the same process, over another connection */
	again = peer_new(3, 12, "attacher");
	again->peer.started = a->peer.started;
	assert_int_equal(peer_attach(again, "x"), GPUSHARE_OK);
	atomic_store(&page->published, 3);
	atomic_store(&page->next, 5);
	assert_int_equal(ordered_ask(again, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->next, 5); /* of which 4 and 5 are under way */
	registry_disconnect(peer_registry, a);
	assert_false(order_is_gone(page));
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	registry_disconnect(peer_registry, again);
	assert_true(order_is_gone(page));
	assert_int_equal(page->published, 3 | ORDER_GONE_BIT);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_false(order_is_gone(page));
	assert_int_equal(page->published, 3);
	assert_int_equal(page->next, 3); /* the dead one's 4 and 5 never were */
}

static void who_left_with_work_under_way_is_waited_for(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a;
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	a = attacher(2, "x");
	process_read(getpid(), a->peer.uid, &a->peer);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&ordered_page(generation)->next, 1);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_PUBLISHES, 0), GPUSHARE_OK);
	assert_true(order_is_gone(ordered_page(generation)));
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	peer_assert_sentence("may still write to it");
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_PUBLISHES, 0), GPUSHARE_OK);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	order_raise(&ordered_page(generation)->published, 1); /* its GPU has come there */
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_page(generation)->published, 1);
}

static void a_read_only_buffer_is_its_owners_to_publish(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a;
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	a = attacher(2, "x");
	store_find(&peer_registry->state.store, "x")->info.flags |= GPUSHARE_FLAG_READONLY;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_E_READ_ONLY);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
}

static void consumers_get_slots_that_end_with_them(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a, *b;
	uint64_t generation = peer_share(owner, "x");
	struct order_page *page;

	(void)state;
	a = attacher(2, "x");
	b = attacher(3, "x");
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	page = ordered_page(generation);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 1);
	assert_int_equal(peer_answer.body.order.first, 1);
	atomic_store(&page->published, 9);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 2);
	assert_int_equal(peer_answer.body.order.first, 9);
	assert_int_equal(page->slot[1].released, 8);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_CONSUMES),
			 GPUSHARE_OK); /* as before */
	assert_int_equal(peer_answer.body.order.slot, 2);
	/* one that goes is let through; its slot is not another's for a while */
	assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_OK);
	assert_int_equal(page->slot[0].state, ORDER_SLOT_LEFT);
	assert_true(page->slot[0].released & ORDER_GONE_BIT);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 3);
	/* one that leaves in order leaves it at once; one with work under way for ever */
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, 1), GPUSHARE_OK);
	atomic_store(&page->reclaimed, 9);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 2);
	assert_int_equal(peer_answer.body.order.first, 10); /* 9 was reclaimed already */
	assert_int_equal(page->slot[1].released, 9);
	assert_int_equal(ordered_leave(b, "x", generation, ORDER_CONSUMES, 0), GPUSHARE_OK);
	assert_int_equal(ordered_ask(b, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 4);
	assert_int_equal(page->top, 4);
}

static void there_is_room_for_so_many_consumers(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *one = NULL;
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	for (uint32_t i = 0; i < ORDER_SLOTS; i++) {
		one = attacher(100 + i, "x");
		assert_int_equal(ordered_ask(one, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
		assert_int_equal(peer_answer.body.order.slot, i + 1);
	}
	registry_disconnect(peer_registry, one);
	one = attacher(99, "x");
	assert_int_equal(ordered_ask(one, "x", generation, ORDER_CONSUMES), GPUSHARE_E_LIMIT);
	peer_assert_sentence("240 consumers");
	assert_null(participant_find(order_find(peer_registry, generation), one));
	assert_int_equal(ordered_ask(one, "x", generation, 0),
			 GPUSHARE_OK); /* it may wait all the same */
}

static void marks_are_made_again_for_a_while(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a;
	uint64_t generation = peer_share(owner, "x");
	int64_t now = clock_ns();
	struct order_page *page;

	(void)state;
	a = attacher(2, "x");
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES | ORDER_PUBLISHES),
			 GPUSHARE_OK);
	page = ordered_page(generation);
	assert_int_equal(order_tick(peer_registry, now), INT64_MAX);
	registry_disconnect(peer_registry, a);
	/* what the dead one's GPU still had to do */
	atomic_store(&page->published, 4);
	atomic_store(&page->slot[0].released, 2);
	assert_in_range(order_tick(peer_registry, now), now, now + NS_PER_S);
	assert_int_equal(page->published, 4 | ORDER_GONE_BIT);
	assert_int_equal(page->slot[0].released, 2 | ORDER_GONE_BIT);
	now += 9 * NS_PER_S;
	atomic_store(&page->published, 5);
	assert_true(order_tick(peer_registry, now) != INT64_MAX);
	assert_int_equal(page->published, 5 | ORDER_GONE_BIT);
	assert_true(order_tick(peer_registry, now + 9 * NS_PER_S) != INT64_MAX);
	assert_int_equal(order_tick(peer_registry, now + 11 * NS_PER_S), INT64_MAX);
}

static void what_ends_with_its_name(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a;
	uint64_t generation = peer_share(owner, "x");
	struct order *found;

	(void)state;
	a = attacher(2, "x");
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	found = order_find(peer_registry, generation);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_OK);
	assert_null(order_find(peer_registry, generation));
	assert_true(order_is_gone(found->page)); /* it is still marked */
	assert_null(a->participants);
	assert_int_equal(ordered_leave(a, "x", generation, ORDER_CONSUMES, 1), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(order_tick(peer_registry, clock_ns() + 20 * NS_PER_S), INT64_MAX);
	assert_null(peer_registry->orders);
	assert_int_equal(peer_registry->state.users.fds, 0);
}

static void an_owner_who_frees_into_limbo_has_gone(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a;
	uint64_t generation = peer_share(owner, "x");
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	(void)state;
	a = attacher(2, "x");
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	strcpy(what.verb.withdraw.name, "x");
	what.verb.withdraw.generation = generation;
	what.verb.withdraw.limbo = true;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_true(order_is_gone(ordered_page(generation)));
	assert_int_equal(ordered_page(generation)->slot[0].state, ORDER_SLOT_ACTIVE);
	assert_null(owner->participants);
}

static void a_taken_name_ends_nothing(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *a;
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	a = attacher(2, "x");
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(a, "x", 0), GPUSHARE_OK); /* unlinked */
	assert_false(order_is_gone(ordered_page(generation)));
	registry_disconnect(peer_registry, owner);
	assert_null(order_find(peer_registry, generation));
}

static void what_is_given_back_is_taken_where_it_is_a_page(void **state)
{
	struct session *owner = peer_new(1, 11, "owner");
	uint64_t generation = peer_share(owner, "x");
	int fds[] = {-1, order_page_make(generation + 1, 77), order_page_make(generation, 77)},
	    pipes[2];
	request what = {.which_verb = gpushare_Request_order_tag};

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	close(pipes[0]);
	fds[0] = pipes[1];
	strcpy(what.verb.order.name, "x");
	what.verb.order.generation = generation;
	what.verb.order.roles = ORDER_CONSUMES;
	what.verb.order.again = 77;
	what.verb.order.slot = 5;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, 0); /* wanted */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
		    ordered_bring(owner, "x", generation, ORDER_CONSUMES, 77, 5, fds[i]),
		    GPUSHARE_OK);
		assert_int_equal(peer_answer.body.order.id, i == 2 ? 77 : 0);
	}
	assert_int_equal(peer_answer.body.order.slot, 5);
	what.verb.order.again = 78; /* another page than that one */
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, 77);
	assert_int_equal(peer_answer.body.order.slot, 0);
}

static void a_join_and_a_reclaim_agree(void **state)
{
	int fd = order_page_make(1, 1);
	struct order_page *page;

	(void)state;
	assert_int_equal(order_page_map(fd, 2, &page), GPUSHARE_E_PROTOCOL);
	assert_int_equal(order_page_map(fd, 1, &page), GPUSHARE_OK);
	assert_int_equal(order_join(page, 0, 5), 1);
	assert_int_equal(page->slot[0].released, 0);
	atomic_store(&page->published, 3);
	assert_int_equal(order_join(page, 1, 5), 3);
	atomic_store(&page->reclaimed, 3);
	assert_int_equal(order_join(page, 2, 5), 4);
	assert_int_equal(page->slot[2].released, 3);
	assert_true(order_raise(&page->slot[2].released, 6));
	assert_false(order_raise(&page->slot[2].released, 5));
	assert_true(order_mark_left(page, 2));
	assert_false(order_mark_left(page, 2));
	order_rejoin(page, 2, 5); /* not gone after all: waited for again, from where it was */
	assert_int_equal(page->slot[2].released, 6);
	assert_int_equal(page->slot[2].state, ORDER_SLOT_ACTIVE);
	assert_true(order_mark_left(page, 2));
	assert_true(order_raise(&page->slot[2].released, 7));
	assert_int_equal(page->slot[2].released, 7 | ORDER_GONE_BIT);
	order_page_unmap(page);
	assert_int_equal(ftruncate(fd, 0), -1); /* sealed */
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)
	    T(only_who_has_it_gets_its_page),
	    T(one_process_publishes),
	    T(who_left_with_work_under_way_is_waited_for),
	    T(a_read_only_buffer_is_its_owners_to_publish),
	    T(consumers_get_slots_that_end_with_them),
	    T(there_is_room_for_so_many_consumers),
	    T(marks_are_made_again_for_a_while),
	    T(what_ends_with_its_name),
	    T(an_owner_who_frees_into_limbo_has_gone),
	    T(a_taken_name_ends_nothing),
	    T(what_is_given_back_is_taken_where_it_is_a_page),
	    T(a_join_and_a_reclaim_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
