/* SPDX-License-Identifier: MIT */
/* An order page that was away, or whose registry has ended: whoever waits for somebody who went
 * meanwhile is let through. */
#include "unit.h"

#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "persist/save.h"
#include "ordered.h"
#include "successor.h"

static pid_t other;
static uint64_t generation;
static struct session *owner;
static uint8_t key[GPUSHARE_SESSION_KEY_SIZE]; /* the owner's */

static int set_up(void **state)
{
	int failed = successor_set_up(state);

	other = successor_process();
	owner = successor_connect(getpid());
	memcpy(key, owner->key, sizeof(key));
	generation = peer_share(owner, "x");
	return failed;
}

static int tear_down(void **state)
{
	fake_fdstore_loses = false;
	successor_end(other);
	return successor_tear_down(state);
}

static struct session *attacher(pid_t pid)
{
	struct session *session = successor_connect(pid);

	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	return session;
}

/* The page as a process has it. */
static int copy_of_page(void)
{
	return fcntl(order_find(peer_registry, generation)->fdref->fd, F_DUPFD_CLOEXEC, 3);
}

static void who_died_while_the_page_was_away_is_marked_when_it_comes(void **state)
{
	struct session *a = attacher(other);
	struct order_page *page;
	uint64_t id;
	int fd;

	(void)state;
	fake_fdstore_loses = true;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES | ORDER_PUBLISHES),
			 GPUSHARE_OK);
	id = ordered_page(generation)->id;
	fd = copy_of_page();
	successor_start();
	assert_null(order_find(peer_registry, generation)->page);
	successor_end(other);
	registry_disconnect(peer_registry,
			    order_find(peer_registry, generation)->participants->session);
	owner = successor_resume(getpid(), key);
	assert_int_equal(ordered_bring(owner, "x", generation, 0, id, 0, fd), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.id, id);
	page = ordered_page(generation);
	assert_int_equal(page->slot[0].state, ORDER_SLOT_LEFT);
	assert_true(page->slot[0].released & ORDER_GONE_BIT);
	assert_true(order_is_gone(page));
	/* what its GPU had still to do */
	atomic_store(&page->slot[0].released, 2);
	atomic_store(&page->published, 3);
	assert_true(order_tick(peer_registry, clock_ns()) != INT64_MAX);
	assert_true(page->slot[0].released & ORDER_GONE_BIT);
	assert_true(page->published & ORDER_GONE_BIT);
}

/* As of before a restart after which the registry knew nothing: two consume it, one publishes. */
static struct order_page *strange_page(int *out_fd)
{
	struct order_page *page;

	*out_fd = order_page_make(generation, 77);
	assert_int_equal(order_page_map(*out_fd, generation, &page), GPUSHARE_OK);
	order_join(page, 0, UINT64_C(1) << 63 | 5); /* of a process that isn't visible */
	order_join(page, 1, UINT64_C(1) << 63 | 6);
	order_begin(page, 4711);
	atomic_store(&page->published, 3);
	atomic_store(&page->next, 3);
	return page;
}

/* Whom only the page knows has some time to come back. */
static void who_is_known_to_the_page_alone_is_awaited(void **state)
{
	struct session *a = attacher(other);
	int fd;
	struct order_page *page = strange_page(&fd);
	int64_t now = clock_ns();

	(void)state;
	atomic_store(&page->slot[1].process, participant_number(&a->peer));
	assert_int_equal(ordered_bring(a, "x", generation, ORDER_CONSUMES, 77, 2, fd), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 2);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 3); /* 1 may be somebody's */
	for (int s = 0; s < LIMIT_UNSEEN_S; s += 5) {
		assert_true(order_tick(peer_registry, now + s * NS_PER_S) != INT64_MAX);
		assert_int_equal(page->slot[0].state, ORDER_SLOT_ACTIVE);
		assert_false(order_is_gone(page));
	}
	now += (LIMIT_UNSEEN_S + 1) * NS_PER_S;
	assert_true(order_tick(peer_registry, now) != INT64_MAX);
	assert_int_equal(page->slot[0].state, ORDER_SLOT_LEFT);
	assert_int_equal(page->slot[1].state, ORDER_SLOT_ACTIVE);
	assert_int_equal(page->slot[2].state, ORDER_SLOT_ACTIVE);
	assert_true(order_is_gone(page));
	assert_true(order_tick(peer_registry, now + 9 * NS_PER_S) != INT64_MAX);
	assert_int_equal(order_tick(peer_registry, now + 11 * NS_PER_S), INT64_MAX);
	/* and comes back even so */
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_false(order_is_gone(page));
	order_page_unmap(page);
}

/* The owner has the connection that the page speaks of: it need not have said more. */
static void a_publisher_who_is_there_is_not_taken_for_gone(void **state)
{
	struct order_page *page;

	struct session *a = attacher(other);
	int fd;

	(void)state;
	page = strange_page(&fd);
	atomic_store(&page->publisher, participant_number(&owner->peer));
	assert_int_equal(ordered_bring(a, "x", generation, ORDER_CONSUMES, 77, 2, fd), GPUSHARE_OK);
	order_tick(peer_registry, clock_ns() + (LIMIT_UNSEEN_S + 1) * NS_PER_S);
	assert_false(order_is_gone(page));
	order_page_unmap(page);
}

/* A buffer that goes shortly before the registry does: its marks are made again all the same. */
static void a_successor_goes_on_marking(void **state)
{
	struct session *a = attacher(other);
	struct order_page *page;

	(void)state;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(
	    order_page_map(order_find(peer_registry, generation)->fdref->fd, generation, &page),
	    GPUSHARE_OK);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_OK);
	save_flush(peer_registry);
	assert_true(order_is_gone(page));
	successor_start();
	atomic_store(&page->slot[0].released, 2); /* a GPU came late */
	atomic_store(&page->published, 2);
	order_tick(peer_registry, clock_ns());
	assert_true(page->slot[0].released & ORDER_GONE_BIT);
	assert_true(page->published & ORDER_GONE_BIT);
	order_page_unmap(page);
	assert_int_equal(order_tick(peer_registry, clock_ns() + 20 * NS_PER_S), INT64_MAX);
	assert_null(peer_registry->orders);
	assert_int_equal(fake_fdstore_count(), 0);
}

/* Its owner had left it out, as another thread of his was about to share it: those who have it
 * attached go on. */
static void what_is_brought_back_goes_on(void **state)
{
	struct session *a = attacher(other);
	request what = {.which_verb = gpushare_Request_resync_tag};
	struct order_page *page;

	(void)state;
	assert_int_equal(ordered_ask(a, "x", generation, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	page = ordered_page(generation);
	atomic_store(&page->published, 5);
	atomic_store(&page->next, 6); /* under way */
	what.verb.resync.last = true;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_non_null(store_find_deferred(&peer_registry->state.store, generation));
	what = peer_share_of("x");
	what.verb.share.again = generation;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_non_null(a->participants);
	assert_int_equal(page->slot[0].state, ORDER_SLOT_ACTIVE);
	assert_ptr_equal(ordered_page(generation), page);
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_false(order_is_gone(page));
	assert_int_equal(page->published, 5);
	assert_int_equal(page->next, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    T(who_died_while_the_page_was_away_is_marked_when_it_comes),
	    T(who_is_known_to_the_page_alone_is_awaited),
	    T(a_publisher_who_is_there_is_not_taken_for_gone),
	    T(a_successor_goes_on_marking),
	    T(what_is_brought_back_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
