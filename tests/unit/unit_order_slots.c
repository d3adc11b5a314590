/* SPDX-License-Identifier: MIT */
/* Timing of stream-sync pages: when a slot is free, what is marked again, and which clients may
 * resume. The test sets the clock. */
#include "unit.h"

#include "order/order.h"
#include "os/clock.h"
#include "peer.h"

#define PAGES 20

static int64_t now;
static uint64_t generation;
static struct session *owner;
static struct order_page *page; /* the page of "x", once joined */

static int ordered_ask(struct session *session, const char *name, uint32_t roles)
{
	request what = raw_order(name, generation, roles);

	return peer_ask(session, &what);
}

/* Give up `roles`. `final` is stored in the slot first, as order_slot.final. */
static int ordered_leave(struct session *session, const char *name, uint32_t roles, uint64_t final)
{
	const struct order *order = order_find(peer_registry, generation);
	const struct participant *participant = order ? participant_find(order, session) : NULL;
	request what = raw_order(name, generation, roles);

	if (participant && participant->slot)
		atomic_store(&order->page->slot[participant->slot - 1].final, final);
	what.verb.order.leave = true;
	return peer_ask(session, &what);
}

/* Resume `roles`, with slot `slot`, on the page with `id`, and send its descriptor `fd`. */
static int ordered_bring(struct session *session, const char *name, uint32_t roles, uint64_t id,
			 uint32_t slot, int fd)
{
	request what = raw_order(name, generation, roles);

	what.verb.order.again = id;
	what.verb.order.slot = slot;
	peer_goes = fd;
	return peer_ask(session, &what);
}

static struct order_page *ordered_page(void)
{
	struct order *found = order_find(peer_registry, generation);

	assert_non_null(found);
	assert_non_null(found->page);
	return found->page;
}

/* A session of this living process. To the registry, processes of peer_new() have ended. */
static struct session *attacher(uint32_t id)
{
	struct session *session = peer_new(id, (int32_t)id, "attacher");

	process_read(getpid(), session->peer.uid, &session->peer);
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	return session;
}

static int set_up(void **state)
{
	int failed = peer_set_up(state);

	now = clock_ns();
	owner = peer_new(1, 11, "owner");
	generation = peer_share(owner, "x");
	return failed;
}

/* Advance the clock by `s` seconds. Returns whether marks remain to be made. */
static bool pass(int s)
{
	now += s * NS_PER_S;
	peer_registry->state.now_ns = now;
	return order_tick(peer_registry, now) != INT64_MAX;
}

static uint32_t joined_slot(struct session *session)
{
	assert_int_equal(ordered_ask(session, "x", ORDER_CONSUMES), GPUSHARE_OK);
	page = ordered_page();
	return peer_answer.body.order.slot;
}

/* Leave with `final` in the slot. */
static void leave(struct session *session, uint64_t final)
{
	assert_int_equal(ordered_leave(session, "x", ORDER_CONSUMES, final), GPUSHARE_OK);
}

/* Join and leave at once. Return the slot. */
static uint32_t next_slot(struct session *session)
{
	uint32_t slot = joined_slot(session);

	leave(session, 1);
	return slot;
}

/* Make the slot's process one with the same pid that started earlier, so it has ended. */
static void end_process(uint32_t slot)
{
	atomic_fetch_sub(&page->slot[slot - 1].process, UINT64_C(1) << 22);
}

static void a_slot_is_free_when_its_process_has_ended(void **state)
{
	struct session *a = attacher(2), *b = attacher(3);

	assert_int_equal(joined_slot(a), 1);
	leave(a, 0);
	pass(1);
	assert_int_equal(next_slot(b), 2);
	assert_int_equal(next_slot(b), 2); /* it left with nothing pending */
	peer_end(a);			   /* its graph may still run */
	pass(60);
	assert_int_equal(next_slot(b), 2);
	end_process(1);
	pass(1);
	/* Work that another process (MPS) does for it may take a while. */
	pass(9);
	assert_int_equal(next_slot(b), 2);
	pass(2);
	assert_int_equal(next_slot(b), 1);
}

static void a_slot_is_free_when_the_last_release_has_come(void **state)
{
	struct session *a = attacher(2);

	assert_int_equal(joined_slot(a), 1);
	atomic_store(&page->slot[0].released, 3);
	leave(a, 5 + 1);
	pass(60);
	assert_int_equal(next_slot(a), 2);
	atomic_store(&page->slot[0].released, 5);
	assert_int_equal(next_slot(a), 1);
}

/* A process in another pid namespace, as in a container. */
static struct session *foreigner(uint32_t id, int32_t own_pid)
{
	struct session *session = peer_new(id, 0, "");

	process_says(&session->peer, 4026532001, own_pid, 99);
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	return session;
}

/* The registry can't see whether it lives once its last session has ended. */
static void an_unsettled_slot_of_an_invisible_process_is_kept(void **state)
{
	struct session *a = foreigner(2, 7);

	assert_int_equal(joined_slot(a), 1);
	leave(a, ORDER_UNSETTLED);
	peer_end(a); /* its graph may still run */
	a = foreigner(3, 8);
	assert_int_equal(joined_slot(a), 2);
	peer_end(a); /* counts as dead */
	pass(1);
	pass(11);
	assert_int_equal(next_slot(attacher(4)), 2);
}

static uint32_t resumed_slot(struct session *session, uint32_t slot)
{
	assert_int_equal(ordered_bring(session, "x", ORDER_CONSUMES, page->id, slot, -1),
			 GPUSHARE_OK);
	return peer_answer.body.order.slot;
}

static void only_its_own_slot_is_resumed(void **state)
{
	request what = raw_order("x", generation, ORDER_CONSUMES);
	struct session *a = foreigner(2, 7), *b = attacher(3);

	assert_int_equal(joined_slot(a), 1);
	peer_end(a);
	/* Only a reconnecting client may ask for a slot. */
	what.verb.order.slot = 1;
	assert_int_equal(peer_ask(b, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 2);
	leave(b, 1);
	pass(1);
	pass(11);
	assert_int_equal(joined_slot(b), 1); /* it was free again */
	leave(b, ORDER_UNSETTLED);
	a = foreigner(4, 7);
	assert_int_equal(resumed_slot(a, 1), 2);
	peer_end(a);
	assert_int_equal(resumed_slot(foreigner(5, 7), 2), 2);
	assert_int_equal(resumed_slot(b, 1), 1);
	/* Without `again` it gets not even its own slot, whose last release is still to come. */
	leave(b, ORDER_UNSETTLED);
	assert_int_equal(peer_ask(b, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 3);
}

/* exec() has ended the old program's GPU work, so nothing is pending. */
static void a_program_ends_with_exec(void **state)
{
	struct session *a = attacher(2), *b = peer_new(3, 13, "b");

	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	a->peer.stack++; /* as the program before exec() */
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_ask(a, "x", ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&page->next, 4);
	atomic_store(&page->published, 2);
	peer_end(a);
	pass(1);
	pass(11);
	assert_int_equal(next_slot(b), 1);
	a = attacher(4); /* the new program */
	assert_int_equal(ordered_ask(a, "x", ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->next, 2);
	atomic_store(&page->next, 3);
	assert_int_equal(ordered_leave(a, "x", ORDER_PUBLISHES, 0), GPUSHARE_OK);
	assert_int_equal(ordered_ask(b, "x", ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	order_find(peer_registry, generation)->under_way_ns = 0; /* 10 s later */
	assert_int_equal(ordered_ask(b, "x", ORDER_PUBLISHES), GPUSHARE_OK);
}

static void a_process_that_can_not_be_read_may_live(void **state)
{
	struct process self;
	struct rlimit before, none;
	uint64_t number;
	bool ended;

	process_read(getpid(), getuid(), &self);
	number = participant_number(&self);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ended = participant_has_ended(number, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_false(ended);
	assert_false(participant_has_ended(number, 0));
	assert_true(participant_has_ended(number - (UINT64_C(1) << 22), 0)); /* started before */
}

/* A GPU's late write overwrites a mark. */
static void marks_are_made_again(void **state)
{
	struct session *a = attacher(2);

	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(ordered_ask(a, "x", ORDER_PUBLISHES), GPUSHARE_OK);
	assert_false(pass(0));
	peer_end(a);
	atomic_store(&page->published, 4);
	atomic_store(&page->slot[0].released, 2);
	assert_true(pass(0));
	assert_int_equal(page->published, 4 | ORDER_GONE_BIT);
	assert_int_equal(page->slot[0].released, 2 | ORDER_GONE_BIT);
	assert_true(pass(60)); /* while its process lives */
	atomic_store(&page->slot[0].released, 5);
	assert_true(pass(1));
	assert_int_equal(page->slot[0].released, 5 | ORDER_GONE_BIT);
	end_process(1);
	assert_true(pass(1));
	atomic_store(&page->published, 6);
	assert_true(pass(9));
	assert_int_equal(page->published, 6 | ORDER_GONE_BIT);
	assert_true(pass(9));
	assert_false(pass(2));
}

/* After a buffer is gone its marks are repeated for 10 s, then everything is freed. */
static void marks_outlive_the_name(void **state)
{
	struct session *a = attacher(2);

	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_OK);
	assert_null(order_find(peer_registry, generation));
	assert_null(a->participants);
	assert_true(order_is_gone(page));
	assert_true(pass(0));
	assert_false(pass(20));
	assert_null(peer_registry->orders);
	assert_int_equal(peer_registry->state.users.fds, 0);
}

/* A page as from before a restart that lost all records. Processes that the registry can't see
 * consume in slots 1 and 2 and publish. */
static int strange_page(void)
{
	int fd = order_page_make(generation, 77);

	assert_int_equal(order_page_map(fd, generation, &page), GPUSHARE_OK);
	order_join(page, 0, UINT64_C(1) << 63 | 5);
	order_join(page, 1, UINT64_C(1) << 63 | 6);
	order_begin(page, UINT64_C(1) << 63 | 7);
	atomic_store(&page->published, 3);
	atomic_store(&page->next, 3);
	return fd;
}

/* Participants that only the page names get some time to resume. */
static void who_is_known_to_the_page_alone_is_awaited(void **state)
{
	struct session *a = attacher(2), *b = attacher(3);
	int fd = strange_page();

	atomic_store(&page->slot[1].process, participant_number(&a->peer));
	order_join(page, 2, participant_number(&owner->peer)); /* has ended */
	assert_int_equal(ordered_bring(a, "x", ORDER_CONSUMES, 77, 2, fd), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 2);
	assert_int_equal(ordered_ask(b, "x", ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.order.slot, 4); /* 1 and 3 may be in use */
	for (int s = 0; s < LIMIT_UNSEEN_S; s += 5) {
		assert_true(pass(s ? 5 : 0));
		assert_int_equal(page->slot[0].state, ORDER_SLOT_ACTIVE);
		assert_int_equal(page->slot[2].state, ORDER_SLOT_LEFT);
		assert_false(order_is_gone(page));
	}
	assert_true(pass(6));
	assert_int_equal(page->slot[0].state, ORDER_SLOT_LEFT);
	assert_int_equal(page->slot[1].state, ORDER_SLOT_ACTIVE);
	assert_int_equal(page->slot[3].state, ORDER_SLOT_ACTIVE);
	assert_true(order_is_gone(page));
	pass(9);
	assert_false(pass(20));
	/* a publisher can still return */
	assert_int_equal(ordered_ask(a, "x", ORDER_PUBLISHES), GPUSHARE_OK);
	assert_false(order_is_gone(page));
	order_page_unmap(page);
}

/* The page's publisher is the owner's process, which is connected. It need not have resumed. */
static void a_publisher_who_is_there_is_not_taken_for_gone(void **state)
{
	struct session *a = attacher(2);
	int fd = strange_page();

	atomic_store(&page->publisher, participant_number(&owner->peer));
	assert_int_equal(ordered_bring(a, "x", ORDER_CONSUMES, 77, 2, fd), GPUSHARE_OK);
	pass(LIMIT_UNSEEN_S + 1);
	assert_false(order_is_gone(page));
	order_page_unmap(page);
}

/* A registry that lost its records waits for the owner for a limited time, then frees
 * everything. */
static void an_owner_who_does_not_come_has_gone(void **state)
{
	request what = {0};
	struct session *a;
	int fd = strange_page();

	peer_end(owner);
	peer_tear_down(NULL);
	peer_set_up(NULL);
	peer_registry->unseen_until_ns = INT64_MAX;
	a = peer_new(2, 12, "a");
	raw_tell(&what, "x", generation, 1);
	what.verb.resync.last = true;
	assert_int_equal(peer_ask(a, &what), GPUSHARE_OK);
	assert_int_equal(ordered_bring(a, "x", ORDER_CONSUMES, 77, 3, fd), GPUSHARE_OK);
	pass(29);
	assert_false(order_is_gone(page));
	pass(2);
	assert_true(order_is_gone(page));
	assert_null(order_find(peer_registry, generation));
	assert_null(a->participants);
	assert_false(pass(30));
	assert_null(peer_registry->orders);
	order_page_unmap(page);
}

/* A peer that may only read can't become publisher by asking for the generation under a name that
 * no buffer has. */
static void a_wrong_name_gives_no_rights(void **state)
{
	struct process who = {.pid = getpid(), .uid = 2000, .started = 5};
	struct session *reader = registry_connect(peer_registry, 9, &who);
	struct entry *entry = store_find(&peer_registry->state.store, "x");
	request attach = raw_attach("x");
	uint64_t id;

	reader->greeted = true;
	peer_registry->is_system = true;
	peer_registry->unseen_until_ns = INT64_MAX; /* the registry has just started */
	peer_registry->state.since = generation;    /* and lost its records; the owner is back */
	entry->info.mode = 0666;
	assert_int_equal(ordered_ask(owner, "x", 0), GPUSHARE_OK);
	id = peer_answer.body.order.id;
	assert_int_equal(peer_ask(reader, &attach), GPUSHARE_OK);
	entry->info.mode = 0644;
	assert_int_equal(ordered_bring(reader, "x", ORDER_PUBLISHES, id, 0, -1), GPUSHARE_E_DENIED);
	assert_int_equal(ordered_bring(reader, "y", ORDER_PUBLISHES, id, 0, -1),
			 GPUSHARE_E_NOT_FOUND);
	assert_int_equal(ordered_ask(owner, "x", ORDER_PUBLISHES), GPUSHARE_OK);
}

/* Count the slots whose process was found to have ended. All slots of the pages are in use. */
static int left_slots(struct order_page *const pages[])
{
	int count = 0;

	for (int i = 0; i < PAGES; i++) {
		for (int at = 0; at < ORDER_SLOTS; at++)
			count += pages[i]->slot[at].state == ORDER_SLOT_LEFT;
	}
	return count;
}

/* Each check reads a file of /proc while others want the lock, so one tick makes only some. */
static void processes_are_looked_at_in_pieces(void **state)
{
	struct order_page *pages[PAGES];
	int left = 0, before = -1;

	for (int i = 0; i < PAGES; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "n%d", i);
		generation = peer_share(owner, name);
		fd = order_page_make(generation, 77);
		assert_int_equal(order_page_map(fd, generation, &pages[i]), GPUSHARE_OK);
		for (uint32_t at = 0; at < ORDER_SLOTS; at++)
			order_join(pages[i], at, participant_number(&owner->peer) + at);
		assert_int_equal(ordered_bring(owner, name, 0, 77, 0, fd), GPUSHARE_OK);
	}
	while (left < PAGES * ORDER_SLOTS) {
		now = order_tick(peer_registry, now);
		left = left_slots(pages);
		if (before < 0)
			assert_in_range(left, 1, PAGES * ORDER_SLOTS - 1);
		before = left;
	}
	for (int i = 0; i < PAGES; i++)
		order_page_unmap(pages[i]);
}

static void a_join_and_a_reclaim_agree(void **state)
{
	int fd = order_page_make(1, 1);

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
	order_rejoin(page, 2, 5); /* back again, waited for from its last release */
	assert_int_equal(page->slot[2].released, 6);
	assert_int_equal(page->slot[2].state, ORDER_SLOT_ACTIVE);
	assert_true(order_mark_left(page, 2));
	assert_true(order_raise(&page->slot[2].released, 7));
	assert_int_equal(page->slot[2].released, 7 | ORDER_GONE_BIT);
	order_page_unmap(page);
	assert_int_equal(ftruncate(fd, 0), -1); /* sealed */
	close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, peer_tear_down)
UNIT_MAIN(T(a_wrong_name_gives_no_rights), T(a_slot_is_free_when_its_process_has_ended),
	  T(a_slot_is_free_when_the_last_release_has_come),
	  T(an_unsettled_slot_of_an_invisible_process_is_kept), T(only_its_own_slot_is_resumed),
	  T(a_program_ends_with_exec), T(a_process_that_can_not_be_read_may_live),
	  T(marks_are_made_again), T(marks_outlive_the_name),
	  T(who_is_known_to_the_page_alone_is_awaited),
	  T(a_publisher_who_is_there_is_not_taken_for_gone), T(an_owner_who_does_not_come_has_gone),
	  T(processes_are_looked_at_in_pieces), T(a_join_and_a_reclaim_agree))
