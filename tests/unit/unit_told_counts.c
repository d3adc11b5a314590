/* SPDX-License-Identifier: MIT */
/* What a registry without a socket says of what it counts: statuses by name, publications a second. */
#include "unit.h"

#include "os/clock.h"
#include "ordered.h"
#include "rate.h"

static notice heard;
static gpushare_SubscribeReply page;
static pb_size_t read_up_to; /* of that */

/* The next notice of that kind. */
static bool hear(struct session *watcher, enum gpushare_notice_kind kind)
{
	do {
		while (read_up_to < page.notices_count) {
			heard = page.notices[read_up_to++];
			if (heard.kind == kind)
				return true;
		}
		page.notices_count = read_up_to = 0;
	} while (events_take(watcher->watcher, &page));
	return false;
}

static void each_status_has_its_name(void **state)
{
	static const char *const names[] = {
#define X(name, value, text) [-(value)] = #name,
	    GPUSHARE_STATUSES(X)
#undef X
	};
	struct session *session = peer_new(1, 11, "asker");
	request what = {.which_verb = gpushare_Request_stat_tag};
	const gpushare_StatReply *told = &peer_answer.body.stat;
	const size_t known = sizeof(names) / sizeof(*names);

	(void)state;
	for (size_t i = 0; i < known; i++)
		peer_registry->counts.statuses[i] = 100 + i;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(told->by_status_count, known);
	assert_string_equal(told->by_status[0].what, "unknown");
	for (size_t i = 1; i < known; i++) {
		assert_string_equal(told->by_status[i].what, names[i]);
		assert_int_equal(told->by_status[i].count, 100 + i);
	}
}

static void a_rate_is_told_of_what_was_published(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *watcher = peer_new(9, 99, "watcher");
	uint64_t generation = peer_share(owner, "x"), idle = peer_share(owner, "idle");

	(void)state;
	assert_int_equal(ordered_ask(owner, "x", generation, ORDER_PUBLISHES), GPUSHARE_OK);
	assert_int_equal(ordered_ask(owner, "idle", idle, 0), GPUSHARE_OK);
	assert_int_equal(events_enter(peer_registry, watcher, &peer_answer), GPUSHARE_OK);
	atomic_store(&ordered_page(generation)->published, 5);
	rate_tick(peer_registry, 0); /* from here on it is counted */
	assert_false(hear(watcher, GPUSHARE_NOTICE_PUBLISH));
	rate_tick(peer_registry, NS_PER_S);
	assert_false(hear(watcher, GPUSHARE_NOTICE_PUBLISH)); /* none more */
	atomic_store(&ordered_page(generation)->published, 12);
	rate_tick(peer_registry, NS_PER_S / 2);
	assert_true(hear(watcher, GPUSHARE_NOTICE_PUBLISH));
	assert_string_equal(heard.buffer.name, "x");
	assert_int_equal(heard.rate, 14);
	assert_false(hear(watcher, GPUSHARE_NOTICE_PUBLISH));
	atomic_store(&ordered_page(generation)->published, 13);
	rate_tick(peer_registry, 10 * NS_PER_S);
	assert_true(hear(watcher, GPUSHARE_NOTICE_PUBLISH));
	assert_int_equal(heard.rate, 1); /* what goes on is not 0 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_status_has_its_name, peer_set_up, peer_tear_down),
	    cmocka_unit_test_setup_teardown(a_rate_is_told_of_what_was_published, peer_set_up,
					    peer_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
