/* SPDX-License-Identifier: MIT */
/* Order pages, and who is what to them, over a registry that is killed. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "ordered.h"
#include "successor.h"

static void the_living_keep_their_roles(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other);
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
		assert_true(order_find(peer_registry, generation)->slot[0].taken);
	}
	/* it ends afterwards as it would have before */
	successor_end(other);
	registry_disconnect(peer_registry,
			    order_find(peer_registry, generation)->participants->next->session);
	assert_int_equal(ordered_page(generation)->slot[0].state, ORDER_SLOT_LEFT);
	assert_false(order_is_gone(ordered_page(generation)));
}

static void who_died_meanwhile_is_said_to_have_gone(void **state)
{
	pid_t other = successor_process(), third = successor_process();
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other),
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
	struct session *owner = successor_connect(other), *a = successor_connect(getpid());
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
	struct session *owner = successor_connect(getpid());
	uint64_t generation = peer_share(owner, "x");
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];
	request what = {.which_verb = gpushare_Request_order_tag};

	(void)state;
	memcpy(key, owner->key, sizeof(key));
	fake_fdstore_loses = true;
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	what.verb.order.again = peer_answer.body.order.id;
	successor_start();
	fake_fdstore_loses = false;
	owner = successor_resume(getpid(), key);
	assert_non_null(owner->participants);
	assert_null(order_find(peer_registry, generation)->page);
	strcpy(what.verb.order.name, "x");
	what.verb.order.generation = generation;
	what.verb.order.roles = ORDER_PUBLISHES;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, 0);
	/* somebody new is not given another one, which nobody would publish on */
	assert_int_equal(ordered_ask(owner, "x", generation, 0), GPUSHARE_E_TIMED_OUT);
	peer_assert_sentence("brought it back");
}

/* A registry that has lost all of it; who attached it comes first, with the page. */
static struct session *come_first(pid_t pid, uint64_t generation, uint32_t roles, uint64_t id,
				  int fd)
{
	struct session *session = successor_connect(pid);
	request what = {.which_verb = gpushare_Request_order_tag};

	successor_tell(&what, "x", generation, 1);
	what.verb.resync.last = true;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(ordered_ask(session, "x", generation, roles), GPUSHARE_E_TIMED_OUT);
	peer_assert_sentence("has not resynced yet");
	assert_int_equal(ordered_bring(session, "x", generation, roles, id, 1, fd), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, id);
	return session;
}

static void lose_all(void)
{
	char path[128];

	registry_let_go(peer_registry, false);
	snprintf(path, sizeof(path), "%s/registry.state", successor_folder);
	unlink(path);
	successor_start();
}

/* The page of "x", of that owner and a consumer in slot 1, as `a` has it. */
static uint64_t begin(struct session *owner, struct session *a, uint32_t roles, int *out_fd)
{
	uint64_t generation = peer_share(owner, "x");

	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	if (roles)
		assert_int_equal(ordered_ask(owner, "x", generation, roles), GPUSHARE_OK);
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	*out_fd = dup(order_find(peer_registry, generation)->fdref->fd);
	assert_true(*out_fd >= 0);
	return generation;
}

static request share_again(uint64_t generation)
{
	request what = peer_share_of("x");

	what.verb.share.again = generation;
	return what;
}

static void an_owner_who_was_not_heard_is_waited_for(uint32_t roles)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other);
	struct order_page *page;
	uint64_t generation, id;
	request what;
	int fd;

	generation = begin(owner, a, roles, &fd);
	id = ordered_page(generation)->id;
	lose_all();
	a = come_first(other, generation, ORDER_CONSUMES, id, fd);
	page = ordered_page(generation);
	assert_false(order_is_gone(page));
	assert_int_equal(page->slot[0].state, ORDER_SLOT_ACTIVE);
	/* who goes meanwhile goes alone */
	registry_disconnect(peer_registry, a);
	assert_false(order_is_gone(page));
	assert_int_equal(page->slot[0].state, ORDER_SLOT_LEFT);
	order_tick(peer_registry, clock_ns() + 20 * NS_PER_S);
	assert_false(order_is_gone(page));
	owner = successor_connect(getpid());
	what = share_again(generation);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_false(order_is_gone(page));
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	order_tick(peer_registry, clock_ns() + 40 * NS_PER_S);
	assert_false(order_is_gone(page));
	registry_disconnect(peer_registry, owner);
	assert_true(order_is_gone(page));
	successor_end(other);
}

static void a_publisher_who_was_not_heard(void **state)
{
	(void)state;
	an_owner_who_was_not_heard_is_waited_for(ORDER_PUBLISHES);
}

static void an_owner_who_has_published_nothing(void **state)
{
	(void)state;
	an_owner_who_was_not_heard_is_waited_for(0);
}

/* And not for ever; nor is anything left then. */
static void an_owner_who_does_not_come_has_gone(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other);
	struct order_page *page;
	uint64_t generation, id;
	int fd;

	(void)state;
	generation = begin(owner, a, ORDER_PUBLISHES, &fd);
	id = ordered_page(generation)->id;
	assert_int_equal(order_page_map(fd, generation, &page), GPUSHARE_OK);
	lose_all();
	a = come_first(other, generation, ORDER_CONSUMES, id, fd);
	successor_start(); /* with records of what it was told */
	assert_int_equal(ordered_page(generation)->id, id);
	a = order_find(peer_registry, generation)->participants->session;
	order_tick(peer_registry, clock_ns() + 29 * NS_PER_S);
	assert_false(order_is_gone(page));
	order_tick(peer_registry, clock_ns() + 31 * NS_PER_S);
	assert_true(order_is_gone(page));
	assert_null(order_find(peer_registry, generation));
	assert_null(a->participants);
	order_tick(peer_registry, clock_ns() + 60 * NS_PER_S);
	assert_null(peer_registry->orders);
	order_page_unmap(page);
	successor_end(other);
}

/* What the registry knows to have gone is not waited for: its owner took it away, or the name is taken. */
static void what_went_meanwhile_is_not_waited_for(void **state)
{
	pid_t other = successor_process();
	struct session *owner = successor_connect(getpid()), *a = successor_connect(other);
	uint64_t generation, id;
	request what;
	int fd;

	(void)state;
	generation = begin(owner, a, ORDER_PUBLISHES, &fd);
	id = ordered_page(generation)->id;
	lose_all();
	owner = successor_connect(getpid());
	what = share_again(generation);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_OK);
	a = successor_connect(other);
	what = (request){.which_verb = gpushare_Request_resync_tag};
	successor_tell(&what, "x", generation, 1);
	assert_int_equal(peer_ask(a, &what), GPUSHARE_OK);
	assert_int_equal(ordered_bring(a, "x", generation, ORDER_CONSUMES, id, 1, dup(fd)),
			 GPUSHARE_E_NOT_FOUND);
	peer_share(owner, "x");
	assert_int_equal(ordered_bring(a, "x", generation, ORDER_CONSUMES, id, 1, fd),
			 GPUSHARE_E_NOT_FOUND);
	assert_null(peer_registry->orders);
	successor_end(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, successor_set_up, successor_tear_down)
	    T(the_living_keep_their_roles),
	    T(who_died_meanwhile_is_said_to_have_gone),
	    T(an_owner_who_died_takes_the_page_along),
	    T(a_page_that_was_lost_is_asked_for),
	    T(a_publisher_who_was_not_heard),
	    T(an_owner_who_has_published_nothing),
	    T(an_owner_who_does_not_come_has_gone),
	    T(what_went_meanwhile_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
