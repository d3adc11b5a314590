/* SPDX-License-Identifier: MIT */
/* The daemon's stream-sync pages: which clients get them, their roles, and when waiters are let
 * through. */
#include "unit.h"

#include "order_page.h"
#include "raw_peer.h"

/* Three processes; a and b have attached the owner's "x". */
static int owner, a, b;
static uint64_t generation;
static struct order_page *page; /* of "x"; NULL: no client has it */
static int page_fd;

static void share_and_attach(void)
{
	assert_int_equal(raw_say(owner, raw_share("x")), GPUSHARE_OK);
	generation = raw_answer.body.share.generation;
	assert_int_equal(raw_say(a, raw_attach("x")), GPUSHARE_OK);
	assert_int_equal(raw_say(b, raw_attach("x")), GPUSHARE_OK);
}

static int set_up(void **state)
{
	if (raw_set_up(state))
		return -1;
	owner = raw_peer(0, 0);
	a = raw_peer(0, 0);
	b = raw_peer(0, 0);
	page_fd = -1;
	share_and_attach();
	return 0;
}

static void put_page_away(void)
{
	order_page_unmap(page);
	page = NULL;
	if (page_fd >= 0)
		close(page_fd);
	page_fd = -1;
}

static int tear_down(void **state)
{
	put_page_away();
	raw_peers_end();
	return raw_tear_down(state);
}

static request about(uint32_t roles)
{
	return raw_order("x", generation, roles);
}

/* Ask; a page that is answered becomes `page`. */
static int say(int peer, request what, int file)
{
	int status = raw_fds_say(peer, what, file);

	if (raw_fds_came >= 0) {
		put_page_away();
		page_fd = raw_fds_came;
		assert_int_equal(order_page_map(page_fd, what.verb.order.generation, &page),
				 GPUSHARE_OK);
	}
	return status;
}

static int join(int peer, uint32_t roles)
{
	return say(peer, about(roles), -1);
}

static uint32_t joined_slot(int peer)
{
	assert_int_equal(join(peer, ORDER_CONSUMES), GPUSHARE_OK);
	return raw_answer.body.order.slot;
}

static void leave(int peer, uint32_t roles)
{
	request what = about(roles);

	what.verb.order.leave = true;
	assert_int_equal(raw_say(peer, what), GPUSHARE_OK);
}

/* Ask with a page of that id. Returns the id of the registry's page; 0: it has none. */
static uint64_t bring(int peer, uint32_t roles, uint64_t id, uint32_t slot, int file)
{
	request what = about(roles);

	what.verb.order.again = id;
	what.verb.order.slot = slot;
	assert_int_equal(say(peer, what, file), GPUSHARE_OK);
	return raw_answer.body.order.id;
}

/* Wait until the registry has brought about the condition. */
#define AWAIT(condition) \
	for (long long began_ms = raw_now_ms(); !(condition); raw_sleep_ms(1)) \
	assert_in_range(raw_now_ms() - began_ms, 0, 2 * RAW_TIMEOUT_MS)

static bool is_left(uint32_t slot)
{
	return page->slot[slot - 1].state == ORDER_SLOT_LEFT &&
	       page->slot[slot - 1].released & ORDER_GONE_BIT;
}

static void only_who_has_it_gets_its_page(void **state)
{
	int other = raw_peer(0, 0);
	request what = about(0);
	uint64_t id;

	assert_int_equal(join(other, 0), GPUSHARE_E_DENIED);
	raw_assert_sentence("neither shares");
	what.verb.order.generation++;
	assert_int_equal(raw_fds_say(owner, what, -1), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("another buffer");
	strcpy(what.verb.order.name, "nothing");
	assert_int_equal(raw_fds_say(owner, what, -1), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(join(owner, 4), GPUSHARE_E_PROTOCOL);
	assert_int_equal(raw_stat(owner).descriptors, 0);
	assert_int_equal(join(owner, 0), GPUSHARE_OK);
	id = raw_answer.body.order.id;
	assert_int_not_equal(id, 0);
	assert_int_equal(raw_answer.body.order.slot, 0);
	assert_int_equal(join(a, 0), GPUSHARE_OK);
	assert_true(raw_answer.body.order.id == id && page->id == id);
	atomic_store(&page->published, 7);
	assert_int_equal(raw_say(other, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.sequence, 7);
}

static void one_process_publishes(void **state)
{
	int one = raw_connect(&raw_here), two = raw_connect(&raw_here); /* the same process */
	char sentence[64];

	assert_int_equal(raw_say(one, raw_attach("x")), GPUSHARE_OK);
	assert_int_equal(raw_say(two, raw_attach("x")), GPUSHARE_OK);
	assert_int_equal(join(one, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	snprintf(sentence, sizeof(sentence), "process %d (unit_order)", getpid());
	raw_assert_sentence(sentence);
	atomic_store(&page->published, 3);
	atomic_store(&page->next, 5);
	assert_int_equal(join(two, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->next, 5); /* 4 and 5 are pending */
	close(one);
	raw_await_connections(owner, 4);
	assert_false(order_is_gone(page));
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	close(two);
	AWAIT(order_is_gone(page));
	assert_int_equal(page->published, 3 | ORDER_GONE_BIT);
}

static void a_dead_publishers_numbers_are_given_again(void **state)
{
	assert_int_equal(join(a, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&page->published, 3);
	atomic_store(&page->next, 5);
	raw_peer_end(a);
	AWAIT(order_is_gone(page));
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_false(order_is_gone(page));
	assert_int_equal(page->published, 3);
	assert_int_equal(page->next, 3); /* 4 and 5 were never published */
}

static void restart(void)
{
	raw_daemon_again(SIGKILL);
	owner = raw_peer_back(owner);
}

static void who_left_with_work_under_way_is_waited_for(void **state)
{
	assert_int_equal(join(a, ORDER_PUBLISHES), GPUSHARE_OK);
	atomic_store(&page->next, 1);
	leave(a, ORDER_PUBLISHES);
	assert_true(order_is_gone(page));
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	raw_assert_sentence("may still write to it");
	assert_int_equal(join(a, ORDER_PUBLISHES), GPUSHARE_OK);
	leave(a, ORDER_PUBLISHES);
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	if (!raw_is_emulated()) {
		restart();
		assert_true(order_is_gone(page));
		assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	}
	order_raise(&page->published, 1); /* its GPU has finished */
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(page->published, 1);
}

/* The new owner may publish at any time from then on. */
static void a_kept_buffers_next_owner_is_waited_for(void **state)
{
	request what = raw_fds_share("x");

	assert_int_equal(raw_say(owner, raw_withdraw("x", generation)), GPUSHARE_OK);
	assert_int_equal(raw_fds_put(owner, "x", GPUSHARE_FLAG_KEEP), GPUSHARE_OK);
	generation = raw_answer.body.share.generation;
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
	raw_peer_end(owner);
	AWAIT(order_is_gone(page));
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	what.verb.share.adopt = true;
	assert_int_equal(raw_fds_say(a, what, -1), GPUSHARE_OK);
	assert_true(raw_answer.body.share.adopted);
	assert_false(order_is_gone(page));
}

static void a_read_only_buffer_is_its_owners_to_publish(void **state)
{
	assert_int_equal(raw_say(owner, raw_withdraw("x", generation)), GPUSHARE_OK);
	assert_int_equal(raw_fds_put(owner, "x", GPUSHARE_FLAG_READONLY), GPUSHARE_OK);
	generation = raw_answer.body.share.generation;
	assert_int_equal(raw_fds_get(a, "x"), GPUSHARE_OK);
	assert_int_equal(join(a, ORDER_PUBLISHES), GPUSHARE_E_READ_ONLY);
	assert_int_equal(join(a, ORDER_CONSUMES), GPUSHARE_OK);
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
}

static void there_is_room_for_so_many_consumers(void **state)
{
	int consumers[ORDER_SLOTS + 1], one = -1;

	for (uint32_t i = 0; i <= ORDER_SLOTS; i++) {
		consumers[i] = one = raw_connect(&raw_here);
		assert_int_equal(raw_say(one, raw_attach("x")), GPUSHARE_OK);
		if (i < ORDER_SLOTS)
			assert_int_equal(joined_slot(one), i + 1);
	}
	assert_int_equal(join(one, ORDER_CONSUMES), GPUSHARE_E_LIMIT);
	raw_assert_sentence("240 consumers");
	assert_int_equal(join(one, 0), GPUSHARE_OK); /* it may still wait */
	for (uint32_t i = 0; i <= ORDER_SLOTS; i++)
		close(consumers[i]);
}

static void an_owner_who_defers_its_free_has_gone(void **state)
{
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(raw_say(owner, raw_free("x", generation)), GPUSHARE_OK);
	assert_true(order_is_gone(page));
	assert_int_equal(page->slot[0].state, ORDER_SLOT_ACTIVE);
}

static void a_taken_name_ends_nothing(void **state)
{
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(raw_say(a, raw_withdraw("x", 0)), GPUSHARE_OK); /* a unlinks x */
	assert_false(order_is_gone(page));
	raw_peer_end(owner);
	AWAIT(order_is_gone(page) && is_left(1));
	assert_int_equal(join(a, 0), GPUSHARE_E_NOT_FOUND);
}

static int unlike_page(uint64_t magic, uint32_t version, uint32_t slots)
{
	int fd = order_page_make(generation, 77);
	struct order_page *made;

	assert_int_equal(order_page_map(fd, generation, &made), GPUSHARE_OK);
	made->magic = magic;
	made->version = version;
	made->slots = slots;
	order_page_unmap(made);
	return fd;
}

static int short_page(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int whole = order_page_make(generation, 77);
	uint8_t begin[4096];

	assert_int_equal(pread(whole, begin, sizeof(begin), 0), sizeof(begin));
	assert_int_equal(write(fd, begin, sizeof(begin)), sizeof(begin));
	close(whole);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static void what_is_brought_is_taken_where_it_is_a_page(void **state)
{
	int fds[] = {-1,
		     raw_fds_make(),
		     order_page_make(generation + 1, 77),
		     unlike_page(0, 0, 0),
		     unlike_page(ORDER_MAGIC, ORDER_VERSION + 1, ORDER_SLOTS),
		     unlike_page(ORDER_MAGIC, ORDER_VERSION, ORDER_SLOTS + 1),
		     short_page(),
		     order_page_make(generation, 77)};
	const int last = sizeof(fds) / sizeof(*fds) - 1;

	for (int i = 0; i <= last; i++) {
		assert_int_equal(bring(owner, ORDER_CONSUMES, 77, 5, fds[i]), i == last ? 77 : 0);
		if (fds[i] >= 0)
			close(fds[i]);
	}
	assert_int_equal(raw_answer.body.order.slot, 5);
	assert_int_equal(bring(owner, ORDER_CONSUMES, 78, 5, -1), 77); /* it keeps page 77 */
	assert_int_equal(raw_answer.body.order.slot, 0);
}

static bool skips_restarts(void)
{
	if (raw_is_emulated())
		printf("skipped: nothing is kept over a restart under an emulator\n");
	return raw_is_emulated();
}

static void a_left_slot_stays_so_over_restarts(void **state)
{
	if (skips_restarts())
		skip();
	assert_int_equal(joined_slot(a), 1);
	leave(a, ORDER_CONSUMES); /* its GPU may still write */
	for (int again = 0; again < 3; again++) {
		restart();
		assert_int_equal(joined_slot(owner), 2);
		atomic_store(&page->slot[1].final, 1);
		leave(owner, ORDER_CONSUMES);
	}
}

static void what_ends_with_its_name(void **state)
{
	assert_int_equal(joined_slot(a), 1);
	assert_int_equal(raw_say(owner, raw_withdraw("x", generation)), GPUSHARE_OK);
	assert_true(order_is_gone(page) && is_left(1));
	leave(a, ORDER_CONSUMES);
	assert_int_equal(join(a, 0), GPUSHARE_E_NOT_FOUND);
	/* late writes of a GPU are marked again */
	atomic_store(&page->slot[0].released, 2);
	atomic_store(&page->published, 2);
	AWAIT(is_left(1) && page->published == (2 | ORDER_GONE_BIT));
	if (raw_is_emulated())
		return;
	restart();
	atomic_store(&page->slot[0].released, 3);
	atomic_store(&page->published, 3);
	AWAIT(is_left(1) && page->published == (3 | ORDER_GONE_BIT));
}

static void who_died_meanwhile_has_gone(void **state)
{
	if (skips_restarts())
		skip();
	assert_int_equal(join(b, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(joined_slot(a), 1);
	raw_daemon_end(SIGKILL);
	raw_peer_end(a);
	raw_daemon_start(&raw_here, NULL);
	owner = raw_peer_back(owner);
	AWAIT(is_left(1));
	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	assert_false(order_is_gone(page));
	raw_daemon_end(SIGKILL);
	raw_peer_end(b);
	raw_daemon_start(&raw_here, NULL);
	AWAIT(order_is_gone(page));
	owner = raw_peer_back(owner);
	raw_daemon_end(SIGKILL);
	raw_peer_end(owner); /* removes the page once its marks are old enough */
	raw_daemon_start(&raw_here, NULL);
	owner = raw_peer(0, 0);
	assert_int_equal(raw_say(owner, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
}

/* The registry doesn't wait for a buffer that it knows to be gone. */
static void what_went_meanwhile_is_not_waited_for(void **state)
{
	request what = raw_share("x");

	assert_int_equal(join(owner, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(joined_slot(a), 1);
	raw_daemon_lose();
	owner = raw_peer_back(owner);
	what.verb.share.again = generation;
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	assert_int_equal(raw_say(owner, raw_withdraw("x", generation)), GPUSHARE_OK);
	a = raw_peer_back(a);
	for (int taken = 0; taken < 2; taken++) {
		what = about(ORDER_CONSUMES);
		what.verb.order.again = page->id;
		what.verb.order.slot = 1;
		assert_int_equal(raw_fds_say(a, what, page_fd), GPUSHARE_E_NOT_FOUND);
		assert_int_equal(raw_say(owner, raw_share("x")),
				 taken ? GPUSHARE_E_EXISTS : GPUSHARE_OK);
	}
	assert_int_equal(raw_stat(owner).descriptors, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(T(only_who_has_it_gets_its_page), T(one_process_publishes),
	  T(a_dead_publishers_numbers_are_given_again),
	  T(who_left_with_work_under_way_is_waited_for), T(a_kept_buffers_next_owner_is_waited_for),
	  T(a_read_only_buffer_is_its_owners_to_publish), T(there_is_room_for_so_many_consumers),
	  T(an_owner_who_defers_its_free_has_gone), T(a_taken_name_ends_nothing),
	  T(what_is_brought_is_taken_where_it_is_a_page), T(a_left_slot_stays_so_over_restarts),
	  T(what_ends_with_its_name), T(who_died_meanwhile_has_gone),
	  T(what_went_meanwhile_is_not_waited_for))
