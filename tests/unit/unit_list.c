/* SPDX-License-Identifier: MIT */
/* What is listed, page by page, and how long a page may take. */
#include "unit.h"

#include <stdio.h>
#include <time.h>

#include "os/clock.h"
#include "peer.h"

static int list(struct session *session, const char *glob, const char *after, uint32_t limit)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	strcpy(what.verb.list.glob, glob);
	strcpy(what.verb.list.after, after);
	what.verb.list.limit = limit;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.list.buffers_count;
}

static void a_list_is_paged_in_byte_order(void **state)
{
	enum { COUNT = 12 * LIMIT_PAGE + 8 };
	struct session *owner = peer_new(1, 10, "owner");
	char name[16], last[GPUSHARE_NAME_MAX + 1] = "";
	int seen = 0, pages = 0;

	(void)state;
	assert_int_equal(list(owner, "", "", 0), 0);
	assert_false(peer_answer.body.list.more);
	for (int i = 0; i < COUNT; i++) { /* in no order */
		snprintf(name, sizeof(name), "n%03d", i * 77 % COUNT);
		peer_share(owner, name);
	}
	peer_share(owner, "Z/upper");
	do {
		int count = list(owner, "n*", last, LIMIT_PAGE);

		assert_in_range(count, 1, LIMIT_PAGE);
		for (int i = 0; i < count; i++, seen++) {
			snprintf(name, sizeof(name), "n%03d", seen);
			assert_string_equal(peer_answer.body.list.buffers[i].name, name);
		}
		strcpy(last, name);
		pages++;
	} while (peer_answer.body.list.more);
	assert_int_equal(seen, COUNT);
	assert_int_equal(pages, 13);

	assert_int_equal(list(owner, "", "", 1), 1);
	assert_string_equal(peer_answer.body.list.buffers[0].name, "Z/upper");
	assert_int_equal(list(owner, "", "", 99999), LIMIT_PAGE);
	assert_int_equal(list(owner, "", "", 0), LIMIT_PAGE_UNASKED);
	assert_int_equal(list(owner, "*er", "", 0), 1); /* '*' matches '/' */
	assert_false(peer_answer.body.list.more);
	assert_int_equal(list(owner, "n00[0-3]", "", 4), 4);
	assert_false(peer_answer.body.list.more); /* nothing that matches comes after */
	assert_int_equal(list(owner, "n00[0-3]", "", 3), 3);
	assert_true(peer_answer.body.list.more);
	snprintf(name, sizeof(name), "n%03d", COUNT - 1);
	assert_int_equal(list(owner, "", name, 0), 0);
	snprintf(name, sizeof(name), "n%03d5", COUNT - 2);
	assert_int_equal(list(owner, "", name, 0), 1); /* a cursor need not exist */
	assert_int_equal(list(owner, "[", "", 0), 0);
}

/* A glob must not be able to hold the lock. */
static void a_hostile_glob_is_cheap(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	char name[GPUSHARE_NAME_MAX + 1], glob[GPUSHARE_NAME_MAX + 1];
	int64_t begin;

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	peer_share(owner, name);
	for (size_t i = 0; i < sizeof(glob) - 1; i++)
		glob[i] = i % 2 ? 'a' : '*';
	strcpy(glob + 200, "*b");
	begin = clock_ns();
	assert_int_equal(list(owner, glob, "", 0), 0);
	assert_true(clock_ns() - begin < 500 * NS_PER_MS);
}

static int64_t thread_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* All pages to the last: how many names fit. */
static int list_hostile(struct session *session, const char *glob, int *pages)
{
	char after[GPUSHARE_NAME_MAX + 1] = "";
	const gpushare_ListReply *page = &peer_answer.body.list;
	int seen = 0;

	for (*pages = 0; !*pages || page->more; ++*pages) {
		int64_t began_ns = thread_ns();

		seen += list(session, glob, after, 0);
		assert_in_range(thread_ns() - began_ns, 0, 300 * NS_PER_MS);
		assert_true(!page->more || strcmp(page->after, after) > 0);
		assert_true(!page->more || page->after[0] == 'a'); /* no name of another's */
		strcpy(after, page->after);
	}
	return seen;
}

/* Nor a thousand names that are made for it; of those that the peer may not see nothing is told. */
static void so_is_one_of_many_names(void **state)
{
	struct process process = {.pid = 30, .uid = 2000, .started = 300};
	struct session *owner = peer_new(1, 10, "owner");
	struct session *hidden = registry_connect(peer_registry, 3, &process);
	char name[GPUSHARE_NAME_MAX + 1], glob[GPUSHARE_NAME_MAX + 1];
	int pages;

	(void)state;
	assert_non_null(hidden);
	hidden->greeted = true;
	for (int i = 0; i < 1500; i++) {
		memset(name, 'a', sizeof(name));
		snprintf(name + GPUSHARE_NAME_MAX - 4, 5, "%04d", i);
		peer_share(owner, name);
		name[0] = 'b';
		peer_share(hidden, name);
	}
	memset(glob, 'x', sizeof(glob));
	memcpy(glob, "*[09", 4);
	strcpy(glob + 240, "]999*");
	assert_int_equal(list_hostile(owner, glob, &pages), 1);
	assert_in_range(pages, 60 * 10, 160 * 10);
	memset(glob, 'a', sizeof(glob));
	glob[0] = '*';
	strcpy(glob + 120, "b*");
	assert_int_equal(list_hostile(owner, glob, &pages), 0);
	assert_in_range(pages, 16 * 10, 80 * 10);
	assert_in_range(list(hidden, "b*0[0-9]", "", 16), 1, 16); /* a page may be short */
	assert_true(peer_answer.body.list.more);
}

/* What does not fit at first sight costs something, too; what the peer may not see shows in nothing. */
static void many_names_that_do_not_fit_are_looked_at_page_by_page(void **state)
{
	struct process process = {.pid = 30, .uid = 2000, .started = 300};
	const int most = LIMIT_LIST_WORK / LIMIT_LIST_LOOK;
	struct session *owner = peer_new(1, 10, "owner");
	struct session *hidden = registry_connect(peer_registry, 3, &process);
	char name[16], after[GPUSHARE_NAME_MAX + 1];
	int pages;

	(void)state;
	assert_non_null(hidden);
	hidden->greeted = true;
	for (int i = 0; i < most + 1000; i++) {
		snprintf(name, sizeof(name), "a%06d", i);
		peer_share(owner, name);
	}
	assert_int_equal(list_hostile(owner, "*x", &pages), 0);
	assert_int_equal(pages, 2);
	assert_int_equal(list_hostile(owner, "*010", &pages), (most + 1000 + 989) / 1000);
	assert_int_equal(list(owner, "*x", "", 0), 0);
	assert_true(peer_answer.body.list.more);
	strcpy(after, peer_answer.body.list.after);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "a%06dh", i * 3);
		peer_share(hidden, name);
	}
	assert_int_equal(list(owner, "*x", "", 0), 0);
	assert_string_equal(peer_answer.body.list.after, after);
}

/* In pieces, where names that `hidden` shares are passed; each time, the latest of them goes. */
static int list_in_pieces(struct session *session, struct session *hidden, const char *after,
			  bool limbo)
{
	request what = {.which_verb = gpushare_Request_list_tag};
	int pieces = 1, status;

	what.verb.list.limbo = limbo;
	what.verb.list.limit = 3;
	strcpy(what.verb.list.after, after);
	while ((status = handle_request(peer_registry, session, &what, &peer_answer)) ==
	       HANDLE_WAIT) {
		const struct list_rest *rest = peer_registry->list_rest;

		assert_in_range(++pieces, 2, 10);
		assert_int_equal(peer_withdraw(hidden, rest->after, rest->after_generation),
				 GPUSHARE_OK);
	}
	assert_int_equal(status, GPUSHARE_OK);
	free(peer_registry->list_rest);
	peer_registry->list_rest = NULL;
	return pieces;
}

/* The page is as if nothing were hidden. */
static void names_that_the_peer_may_not_see_are_passed_in_pieces(void **state)
{
	const int apart = LIMIT_LIST_HIDDEN;
	struct process process = {.pid = 30, .uid = 2000, .started = 300};
	struct session *owner = peer_new(1, 10, "owner");
	struct session *hidden = registry_connect(peer_registry, 3, &process);
	const gpushare_ListReply *page = &peer_answer.body.list;
	char name[16], after[16];

	(void)state;
	assert_non_null(hidden);
	hidden->greeted = true;
	for (int i = 0; i < 3 * apart + 20; i++) {
		snprintf(name, sizeof(name), "n%06d", i);
		peer_share(i % apart == 10 ? owner : hidden, name);
	}
	assert_int_equal(list_in_pieces(owner, hidden, "", false), 4);
	assert_int_equal(page->buffers_count, 3);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "n%06d", i * apart + 10);
		assert_string_equal(page->buffers[i].name, name);
	}
	assert_true(page->more);
	assert_string_equal(page->after, name);
	strcpy(after, name);
	assert_int_equal(list_in_pieces(owner, hidden, after, false), 2);
	assert_int_equal(page->buffers_count, 1);
	snprintf(name, sizeof(name), "n%06d", 3 * apart + 10);
	assert_string_equal(page->buffers[0].name, name);
	assert_false(page->more);
	assert_string_equal(page->after, "");

	for (int i = 0; i < 3 * apart + 20; i++) { /* unlinked, and not freed */
		snprintf(name, sizeof(name), "n%06d", i);
		peer_withdraw(i % apart == 10 ? owner : hidden, name, 0);
	}
	assert_int_equal(list_in_pieces(owner, hidden, "", true), 4);
	assert_int_equal(page->buffers_count, 0);
	assert_false(page->more);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_list_is_paged_in_byte_order),
	    with_registry(a_hostile_glob_is_cheap),
	    with_registry(so_is_one_of_many_names),
	    with_registry(many_names_that_do_not_fit_are_looked_at_page_by_page),
	    with_registry(names_that_the_peer_may_not_see_are_passed_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
