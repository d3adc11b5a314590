/* SPDX-License-Identifier: MIT */
/* The table of names: in order whatever comes and goes, and no change takes long. */
#include "unit.h"

#include "os/clock.h"
#include "peer.h"
#include "raw.h"

static int64_t spent_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* However many there are, one more keeps nobody waiting, nor does one more attachment: 1 ms of work at most. A
 * table of all that doubled took 8 ms. */
static void none_of_many_takes_long(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	int64_t longest_ns = 0;
	char name[16];

	for (int i = 0; i < 200000; i++) {
		request what;
		int64_t before_ns;

		snprintf(name, sizeof(name), "n%d", i);
		what = raw_share(name);
		before_ns = spent_ns();
		assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
		assert_int_equal(peer_attach(other, name), GPUSHARE_OK);
		if (spent_ns() - before_ns > longest_ns)
			longest_ns = spent_ns() - before_ns;
	}
	print_message("%lld us at most\n", (long long)(longest_ns / 1000));
	if (raw_slack_ms() == RAW_SLACK_MS)
		assert_in_range(longest_ns, 1, 4 * NS_PER_MS); /* two requests */
}

/* In order, each found by its name. */
static size_t named(void)
{
	const struct store *store = &peer_registry->state.store;
	const char *before = "";
	size_t count = 0;

	for (const struct entry *entry; (entry = store_after(store, before)); count++) {
		assert_true(strcmp(before, entry->info.name) < 0);
		assert_ptr_equal(store_find(store, entry->info.name), entry);
		before = entry->info.name;
	}
	return count;
}

static void the_order_survives_changes(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	uint32_t seed = 7;
	char name[16];

	for (int round = 0; round < 5000; round++) {
		request what;

		seed = seed * 1664525 + 1013904223;
		snprintf(name, sizeof(name), "n%u", seed >> 8 & 127);
		what = raw_share(name);
		if (peer_ask(owner, &what) == GPUSHARE_E_EXISTS)
			assert_int_equal(peer_withdraw(owner, name, 0), GPUSHARE_OK);
		assert_int_equal(named(), peer_registry->state.store.count);
	}
	assert_in_range(peer_registry->state.store.count, 20, 110);
}

/* CPU milliseconds that the end of an owner takes who freed `count` names that another has attached. */
static double end_of(unsigned int count)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	int64_t began_ns;
	double took_ms;

	for (unsigned int i = 0; i < count; i++) {
		request what = {.which_verb = gpushare_Request_withdraw_tag};

		strcpy(what.verb.withdraw.name, "x");
		what.verb.withdraw.generation = peer_share(owner, "x");
		what.verb.withdraw.deferred = true;
		assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
		assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	}
	began_ns = spent_ns();
	registry_disconnect(peer_registry, owner);
	took_ms = (double)(spent_ns() - began_ns) / NS_PER_MS;
	registry_disconnect(peer_registry, a);
	return took_ms;
}

/* Each record's end once moved all records behind it: sixteen times as long for four times as many. */
static void its_end_is_linear(void **state)
{
	double some, more;

	some = end_of(20000);
	more = end_of(80000);
	if (more > 8 * some + 20)
		fail_msg("20000 records end in %.1f ms, 80000 in %.1f ms", some, more);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

UNIT_MAIN(with_registry(none_of_many_takes_long), with_registry(its_end_is_linear),
	  with_registry(the_order_survives_changes))
