/* SPDX-License-Identifier: MIT */
/* The real daemon, and what was freed while others had it attached. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "raw_peer.h"
#include "state/limit.h"

static int owner, a, b; /* three processes */

static int set_up(void **state)
{
	if (raw_set_up(state))
		return -1;
	owner = raw_peer(0, 0);
	a = raw_peer(0, 0);
	b = raw_peer(0, 0);
	return 0;
}

static int tear_down(void **state)
{
	raw_peers_end();
	return raw_tear_down(state);
}

static uint64_t share(int peer, const char *name)
{
	assert_int_equal(raw_say(peer, raw_share(name)), GPUSHARE_OK);
	return raw_answer.body.share.generation;
}

static void attach(int peer, const char *name)
{
	assert_int_equal(raw_say(peer, raw_attach(name, 0)), GPUSHARE_OK);
}

/* A free that would hold the memory. Does the registry say so? */
static bool leave(int peer, const char *name, uint64_t generation)
{
	assert_int_equal(raw_say(peer, raw_free(name, generation)), GPUSHARE_OK);
	return raw_answer.which_body == gpushare_Reply_withdraw_tag &&
	       raw_answer.body.withdraw.deferred;
}

/* Which of the two nobody has attached, as bits. */
static unsigned int left(int peer, uint64_t one, uint64_t two)
{
	request what = {.which_verb = gpushare_Request_deferred_tag};
	const gpushare_DeferredReply *answer = &raw_answer.body.deferred;
	unsigned int bits = 0;

	what.verb.deferred.generations_count = 2;
	what.verb.deferred.generations[0] = one;
	what.verb.deferred.generations[1] = two;
	assert_int_equal(raw_say(peer, what), GPUSHARE_OK);
	assert_int_equal(raw_answer.which_body, gpushare_Reply_deferred_tag);
	for (pb_size_t i = 0; i < answer->generations_count; i++)
		bits |= (answer->generations[i] == one) | (answer->generations[i] == two) << 1;
	return bits;
}

static const gpushare_ListReply *list(const char *glob, uint64_t after, uint32_t limit)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	what.verb.list.deferred = true;
	strcpy(what.verb.list.glob, glob);
	what.verb.list.after_generation = after;
	what.verb.list.limit = limit;
	assert_int_equal(raw_say(a, what), GPUSHARE_OK);
	return &raw_answer.body.list;
}

static uint64_t held(void)
{
	return raw_stat(a).deferred;
}

static void end(int peer, int other)
{
	uint64_t connections = raw_stat(other).connections;

	raw_peer_end(peer);
	raw_await_connections(other, connections - 1);
}

static void only_what_others_have_is_held(void **state)
{
	uint64_t x = share(owner, "x");

	(void)state;
	attach(owner, "x"); /* its own process: not an attacher */
	assert_false(leave(owner, "x", x));
	assert_int_equal(held(), 0);
	assert_int_equal(raw_say(owner, raw_detach("x", x)), GPUSHARE_OK);
	assert_int_equal(left(owner, x, 77), 3);
	/* nor memory that travels as a descriptor */
	assert_int_equal(raw_fds_put(owner, "v", 0), GPUSHARE_OK);
	x = raw_answer.body.share.generation;
	assert_int_equal(raw_fds_get(a, "v"), GPUSHARE_OK);
	assert_false(leave(owner, "v", x));
	assert_int_equal(held(), 0);
}

static bool page_says(const struct changes_page *page, uint64_t generation)
{
	return atomic_load(&page->left[generation % CHANGES_SLOTS]) == generation;
}

/* By answers and by the page: of what has its name others may come to have it at any time. */
static void the_last_attacher_ends_it(void **state)
{
	const struct changes_page *page = raw_fds_page(FDS_CHANGES, sizeof(*page));
	uint64_t x = share(owner, "x"), y = share(owner, "y");

	(void)state;
	attach(a, "x");
	attach(b, "x");
	attach(a, "y");
	assert_int_equal(raw_say(a, raw_detach("y", y)), GPUSHARE_OK);
	assert_false(page_says(page, y));
	attach(b, "y");
	assert_true(leave(owner, "x", x));
	assert_true(leave(owner, "y", y));
	assert_int_equal(held(), 2);
	assert_int_equal(raw_stat(a).names, 0);
	assert_int_equal(raw_say(a, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("withdrew it");
	assert_int_equal(left(owner, x, y), 0);
	assert_int_equal(raw_say(a, raw_detach("x", x)), GPUSHARE_OK);
	assert_int_equal(left(owner, x, y), 0);
	assert_false(page_says(page, x));
	assert_int_equal(raw_say(b, raw_detach("x", x)), GPUSHARE_OK);
	assert_true(page_says(page, x) && !page_says(page, y));
	assert_int_equal(left(owner, x, y), 1);
	assert_int_equal(held(), 1);
	end(b, a);
	assert_true(page_says(page, y));
	assert_int_equal(left(owner, x, y), 3);
	assert_int_equal(held(), 0);
	assert_int_equal(raw_stat(a).attachments, 0);
}

static void the_name_is_free(void **state)
{
	uint64_t first = share(owner, "x"), second;

	(void)state;
	attach(a, "x");
	assert_true(leave(owner, "x", first));
	second = share(owner, "x");
	assert_true(second > first);
	attach(a, "x");
	attach(a, "x");
	assert_int_equal(raw_say(a, raw_detach("x", first)), GPUSHARE_OK);
	assert_int_equal(raw_say(a, raw_lookup("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.lookup.buffer.attachers, 2);
	assert_true(leave(owner, "x", second));
	assert_int_equal(left(owner, first, second), 1);
	end(a, owner);
	assert_int_equal(left(owner, first, second), 3);
}

static void it_ends_with_its_owner(void **state)
{
	uint64_t x = share(owner, "x"), y = share(a, "y");

	(void)state;
	attach(a, "x");
	attach(owner, "y");
	assert_true(leave(owner, "x", x));
	assert_true(leave(a, "y", y));
	assert_int_equal(left(owner, x, y), 2); /* y is not its to hold */
	assert_int_equal(held(), 2);
	end(owner, a);
	assert_int_equal(held(), 1);
	assert_int_equal(left(a, x, y), 3); /* its attacher has ended */
	assert_int_equal(raw_say(a, raw_detach("x", x)), GPUSHARE_OK);
}

/* The owner needs the memory, and frees it although it is attached. */
static void it_is_given_up(void **state)
{
	uint64_t x = share(owner, "x");

	(void)state;
	attach(a, "x");
	assert_true(leave(owner, "x", x));
	assert_int_equal(raw_say(a, raw_withdraw("x", x)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(held(), 1);
	assert_int_equal(raw_say(owner, raw_withdraw("x", x)), GPUSHARE_OK);
	assert_int_equal(held(), 0);
	assert_int_equal(raw_say(owner, raw_withdraw("x", x)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(a, raw_detach("x", x)), GPUSHARE_OK);
}

/* Somebody takes the name away; then the owner frees what is attached all the same. */
static void after_an_unlink(void **state)
{
	uint64_t x = share(owner, "x"), y = share(owner, "y"), again;

	(void)state;
	attach(a, "x");
	attach(a, "y");
	assert_int_equal(raw_say(a, raw_withdraw("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(a, raw_withdraw("y", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(a, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("it was unlinked");
	assert_int_equal(held(), 0);
	assert_int_equal(list("", 0, 0)->buffers_count, 0);
	again = share(owner, "x");
	assert_true(leave(owner, "x", x));
	assert_int_equal(held(), 1);
	assert_int_equal(raw_say(a, raw_detach("y", y)), GPUSHARE_OK);
	assert_false(leave(owner, "y", y));
	assert_int_equal(raw_say(a, raw_detach("x", x)), GPUSHARE_OK);
	assert_int_equal(left(owner, x, again), 3);
	assert_int_equal(raw_say(a, raw_lookup("x", 0)), GPUSHARE_OK);
}

static void it_is_listed_by_generation(void **state)
{
	enum { COUNT = LIMIT_PAGE + 40 };
	const gpushare_ListReply *page;
	uint64_t generations[COUNT];
	char name[8];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		generations[i] = share(owner, name);
		attach(a, name);
	}
	for (int i = COUNT - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_true(leave(owner, name, generations[i]));
	}
	page = list("", 0, LIMIT_PAGE);
	assert_int_equal(page->buffers_count, LIMIT_PAGE);
	assert_true(page->more);
	for (pb_size_t i = 0; i < page->buffers_count; i++) {
		assert_int_equal(page->buffers[i].generation, generations[i]);
		assert_true(page->buffers[i].deferred);
		assert_int_equal(page->buffers[i].attachers, 1);
		assert_int_equal(page->buffers[i].address, 0);
	}
	page = list("", generations[LIMIT_PAGE - 1], 3);
	assert_int_equal(page->buffers_count, 3);
	snprintf(name, sizeof(name), "n%d", LIMIT_PAGE);
	assert_string_equal(page->buffers[0].name, name);
	page = list("n3?", 0, 0);
	assert_true(page->buffers_count == 10 && !page->more);
	assert_int_equal(list("", generations[COUNT - 1], 0)->buffers_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(only_what_others_have_is_held),
	    TEST(the_last_attacher_ends_it),
	    TEST(the_name_is_free),
	    TEST(it_ends_with_its_owner),
	    TEST(it_is_given_up),
	    TEST(after_an_unlink),
	    TEST(it_is_listed_by_generation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
