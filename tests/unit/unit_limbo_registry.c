/* SPDX-License-Identifier: MIT */
/* What was freed while others had it attached, in a registry without a socket. */
#include "unit.h"

#include <stdio.h>
#include <time.h>

#include "os/clock.h"
#include "peer.h"

/* A free that would hold the memory. Does the registry say so? */
static bool leave(struct session *session, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(what.verb.withdraw.name, name);
	what.verb.withdraw.generation = generation;
	what.verb.withdraw.limbo = true;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.which_body == gpushare_Reply_withdraw_tag &&
	       peer_answer.body.withdraw.limbo;
}

/* Which of the two nobody has attached, as bits. */
static unsigned int left(struct session *session, uint64_t one, uint64_t two)
{
	request what = {.which_verb = gpushare_Request_limbo_tag};
	const gpushare_LimboReply *answer = &peer_answer.body.limbo;
	unsigned int bits = 0;

	what.verb.limbo.generations_count = 2;
	what.verb.limbo.generations[0] = one;
	what.verb.limbo.generations[1] = two;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.which_body, gpushare_Reply_limbo_tag);
	for (pb_size_t i = 0; i < answer->generations_count; i++)
		bits |= (answer->generations[i] == one) | (answer->generations[i] == two) << 1;
	return bits;
}

static const gpushare_ListReply *list(struct session *session, const char *glob, uint64_t after,
				      uint32_t limit)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	what.verb.list.limbo = true;
	strcpy(what.verb.list.glob, glob);
	what.verb.list.after_generation = after;
	what.verb.list.limit = limit;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return &peer_answer.body.list;
}

static uint64_t held(struct session *session)
{
	request what = {.which_verb = gpushare_Request_stat_tag};

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.stat.limbo;
}

static void end(struct session *session)
{
	assert_null(registry_disconnect(peer_registry, session));
}

static void nobody_has_it(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *own = peer_new(2, 10, "owner");
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	own->peer.started = owner->peer.started;
	assert_int_equal(peer_attach(own, "x"), GPUSHARE_OK); /* its own process: not an attacher */
	assert_false(leave(owner, "x", generation));
	assert_int_equal(held(owner), 0);
	assert_int_equal(peer_detach(own, "x", generation), GPUSHARE_OK);
	assert_int_equal(left(owner, generation, 77), 3);
}

static void the_last_attacher_ends_it(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a"),
		       *b = peer_new(3, 30, "b");
	uint64_t x = peer_share(owner, "x"), y = peer_share(owner, "y");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "y"), GPUSHARE_OK);
	assert_true(leave(owner, "x", x));
	assert_true(leave(owner, "y", y));
	assert_int_equal(held(a), 2);
	assert_int_equal(peer_registry->store.count, 0);
	assert_int_equal(peer_lookup(a, "x", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("pid 10 (owner) withdrew it");
	assert_int_equal(left(owner, x, y), 0);
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
	assert_int_equal(left(owner, x, y), 0);
	assert_int_equal(peer_detach(b, "x", x), GPUSHARE_OK);
	assert_int_equal(left(owner, x, y), 1);
	assert_int_equal(held(a), 1);
	end(b); /* killed, for all that the registry knows */
	assert_int_equal(left(owner, x, y), 3);
	assert_int_equal(held(a), 0);
	assert_int_equal(peer_registry->sessions.attachments, 0);
}

static bool page_says(uint64_t generation)
{
	const struct changes_page *page = peer_registry->changes.page;

	return atomic_load(&page->left[generation % CHANGES_SLOTS]) == generation;
}

/* Of what has its name others may come to have it at any time. */
static void the_page_says_who_has_left(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a"),
		       *b = peer_new(3, 30, "b");
	uint64_t x = peer_share(owner, "x"), y = peer_share(owner, "y");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "y"), GPUSHARE_OK);
	assert_int_equal(peer_detach(a, "y", y), GPUSHARE_OK);
	assert_false(page_says(y));
	assert_int_equal(peer_attach(b, "y"), GPUSHARE_OK);
	assert_true(leave(owner, "x", x));
	assert_true(leave(owner, "y", y));
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
	assert_false(page_says(x));
	assert_int_equal(peer_detach(b, "x", x), GPUSHARE_OK);
	assert_true(page_says(x) && !page_says(y));
	end(b); /* killed, for all that the registry knows */
	assert_true(page_says(y));
}

static void the_name_is_free(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t first = peer_share(owner, "x"), second;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_true(leave(owner, "x", first));
	second = peer_share(owner, "x");
	assert_true(second > first);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attachers(a, "x"), 2);
	assert_int_equal(peer_detach(a, "x", first), GPUSHARE_OK);
	assert_int_equal(peer_attachers(a, "x"), 2);
	assert_true(leave(owner, "x", second));
	assert_int_equal(left(owner, first, second), 1);
	end(a);
	assert_int_equal(left(owner, first, second), 3);
}

static void it_ends_with_its_owner(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	uint64_t x = peer_share(owner, "x"), y = peer_share(other, "y");

	(void)state;
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(owner, "y"), GPUSHARE_OK);
	assert_true(leave(owner, "x", x));
	assert_true(leave(other, "y", y));
	assert_int_equal(left(owner, x, y), 2); /* y is not its to hold */
	assert_int_equal(held(other), 2);
	end(owner);
	assert_int_equal(held(other), 1);
	assert_int_equal(left(other, x, y), 3); /* its attacher has ended */
	assert_int_equal(peer_detach(other, "x", x), GPUSHARE_OK);
}

/* The owner needs the memory, and frees it although it is attached. */
static void it_is_given_up(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t x = peer_share(owner, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_true(leave(owner, "x", x));
	assert_int_equal(peer_withdraw(a, "x", x), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(held(a), 1);
	assert_int_equal(peer_withdraw(owner, "x", x), GPUSHARE_OK);
	assert_int_equal(held(a), 0);
	assert_int_equal(peer_withdraw(owner, "x", x), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
}

/* Somebody takes the name away; then the owner frees what is attached all the same. */
static void after_an_unlink(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t x = peer_share(owner, "x"), y = peer_share(owner, "y"), again;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "y"), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(a, "x", 0), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(a, "y", 0), GPUSHARE_OK);
	assert_int_equal(peer_lookup(a, "x", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("it was unlinked");
	assert_int_equal(held(a), 0);
	assert_int_equal(list(a, "", 0, 0)->buffers_count, 0);
	again = peer_share(owner, "x");
	assert_true(leave(owner, "x", x));
	assert_int_equal(held(a), 1);
	assert_int_equal(peer_detach(a, "y", y), GPUSHARE_OK);
	assert_false(leave(owner, "y", y));
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
	assert_int_equal(left(owner, x, again), 3);
	assert_int_equal(peer_lookup(a, "x", 0), GPUSHARE_OK);
}

static void only_ipc(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t x = peer_share(owner, "x");
	struct entry *entry = store_find(&peer_registry->store, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	entry->info.backing = GPUSHARE_BACKING_VMM;
	assert_false(leave(owner, "x", x));
	assert_int_equal(held(a), 0);
}

static void it_is_listed_by_generation(void **state)
{
	enum { COUNT = LIMIT_PAGE + 40 };
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	const gpushare_ListReply *page;
	uint64_t generations[COUNT];
	char name[8];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		generations[i] = peer_share(owner, name);
		assert_int_equal(peer_attach(a, name), GPUSHARE_OK);
	}
	for (int i = COUNT - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_true(leave(owner, name, generations[i]));
	}
	page = list(a, "", 0, LIMIT_PAGE);
	assert_int_equal(page->buffers_count, LIMIT_PAGE);
	assert_true(page->more);
	for (pb_size_t i = 0; i < page->buffers_count; i++) {
		assert_int_equal(page->buffers[i].generation, generations[i]);
		assert_true(page->buffers[i].in_limbo);
		assert_int_equal(page->buffers[i].attachers, 1);
		assert_int_equal(page->buffers[i].address, 0);
	}
	page = list(a, "", generations[LIMIT_PAGE - 1], 3);
	assert_int_equal(page->buffers_count, 3);
	snprintf(name, sizeof(name), "n%d", LIMIT_PAGE);
	assert_string_equal(page->buffers[0].name, name);
	page = list(a, "n3?", 0, 0);
	assert_int_equal(page->buffers_count, 10);
	assert_false(page->more);
	assert_int_equal(list(a, "", generations[COUNT - 1], 0)->buffers_count, 0);
}

/* A page takes only so long, and says where the next one goes on. */
static void a_hostile_glob_is_cheap(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	char name[GPUSHARE_NAME_MAX + 1], glob[GPUSHARE_NAME_MAX + 1];
	uint64_t after = 0, latest = 0;
	int pages = 0, seen = 0;

	(void)state;
	memset(name, 'a', sizeof(name));
	for (int i = 0; i < 300; i++) {
		snprintf(name + GPUSHARE_NAME_MAX - 3, 4, "%03d", i);
		latest = peer_share(owner, name);
		assert_int_equal(peer_attach(a, name), GPUSHARE_OK);
		assert_true(leave(owner, name, latest));
	}
	memset(glob, 'x', sizeof(glob));
	memcpy(glob, "*[29", 4);
	strcpy(glob + 240, "]99*"); /* nothing is plain at first sight */
	for (const gpushare_ListReply *page = NULL; !page || page->more; pages++) {
		page = list(a, glob, after, 0);
		seen += page->buffers_count;
		assert_true(!page->more || page->after_generation > after);
		after = page->after_generation;
	}
	assert_int_equal(seen, 1); /* 299 */
	assert_in_range(pages, 12 * 10, 40 * 10);
}

static void there_is_an_end_to_it(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t x = peer_share(owner, "x"), y = peer_share(owner, "y");

	(void)state;
	peer_registry->limits.limbo = 1;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(a, "y"), GPUSHARE_OK);
	assert_true(leave(owner, "x", x));
	assert_false(leave(owner, "y", y));
	assert_int_equal(peer_lookup(a, "y", 0), GPUSHARE_E_NOT_FOUND);
}

/* CPU milliseconds that the end of an owner takes who freed `count` names that another has attached. */
static double end_of(unsigned int count)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	struct timespec began, ended;

	for (unsigned int i = 0; i < count; i++) {
		uint64_t generation = peer_share(owner, "x");

		assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
		assert_true(leave(owner, "x", generation));
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
	end(owner);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
	end(a);
	return (double)(ended.tv_sec - began.tv_sec) * 1e3 +
	       (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
}

/* Each record's end once moved all records behind it: sixteen times as long for four times as many. */
static void its_end_is_linear(void **state)
{
	double some, more;

	(void)state;
	some = end_of(20000);
	more = end_of(80000);
	if (more > 8 * some + 20)
		fail_msg("20000 records end in %.1f ms, 80000 in %.1f ms", some, more);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(nobody_has_it),
	    TEST(the_last_attacher_ends_it),
	    TEST(the_page_says_who_has_left),
	    TEST(the_name_is_free),
	    TEST(it_ends_with_its_owner),
	    TEST(it_is_given_up),
	    TEST(after_an_unlink),
	    TEST(only_ipc),
	    TEST(it_is_listed_by_generation),
	    TEST(a_hostile_glob_is_cheap),
	    TEST(there_is_an_end_to_it),
	    TEST(its_end_is_linear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
