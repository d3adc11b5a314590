/* SPDX-License-Identifier: MIT */
/* The sentences: whose a name is, who had it, what may have been meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "closest.h"
#include "peer.h"

static void a_taken_name_says_whose(void **state)
{
	struct lease *owner = peer_new(1, 4711, "python3"), *other = peer_new(2, 50, "other");
	request what = peer_share_of("weights");

	(void)state;
	peer_share(owner, "weights");
	store_find(&peer_registry->store, "weights")->created_ns -= 12 * NS_PER_S;
	assert_int_equal(peer_ask(other, &what), GPUSHARE_E_EXISTS);
	assert_string_equal(peer_answer.message,
			    "\"weights\" is taken by pid 4711 (python3), uid 1000, "
			    "since 12 s; choose another name or end that process");
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_EXISTS);
}

static void a_closed_session_is_no_exit(void **state)
{
	struct lease *owner = peer_new(1, 5, "x"), *other = peer_new(2, 20, "other");

	(void)state;
	process_read(getpid(), 1000, &owner->peer);
	peer_share(owner, "a");
	assert_null(registry_disconnect(peer_registry, owner));
	assert_int_equal(peer_lookup(other, "a", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("closed its session");
}

/* Under the lock; others wait that long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_NS (30 * NS_PER_MS)
#else
#define MOST_NS (4 * NS_PER_MS)
#endif

static int64_t thread_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* All of them as long as names are, and alike: nobody may hold up the others by asking for one more. */
static void many_that_come_close_cost_no_more(void **state)
{
	struct lease *lease = peer_new(1, 10, "owner");
	char name[GPUSHARE_NAME_MAX + 1];
	int64_t least_ns = INT64_MAX;

	(void)state;
	memset(name, 'a', sizeof(name));
	for (int i = 0; i < LIMIT_SUGGESTION_SCAN; i++) {
		snprintf(name + GPUSHARE_NAME_MAX - 5, 6, "%05d", i);
		peer_share(lease, name);
	}
	strcpy(name + GPUSHARE_NAME_MAX - 5, "00x00");
	for (int i = 0; i < 5; i++) {
		int64_t began_ns = thread_ns(), took_ns;

		assert_int_equal(peer_lookup(lease, name, 0), GPUSHARE_E_NOT_FOUND);
		took_ns = thread_ns() - began_ns;
		least_ns = took_ns < least_ns ? took_ns : least_ns;
	}
	printf("%lld us\n", (long long)(least_ns / 1000));
	assert_in_range(least_ns, 0, MOST_NS);
	peer_assert_sentence("did you mean \"aaa");
}

/* And of those that people choose, many are looked at. */
static void a_slip_is_found_among_thousands(void **state)
{
	struct lease *lease = peer_new(1, 10, "owner");
	char name[64];

	(void)state;
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "layers/%d/attention.weight", i);
		peer_share(lease, name);
	}
	peer_share(lease, "layers/zz/attention.bias");
	assert_int_equal(peer_lookup(lease, "layers/zz/atention.bais", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("did you mean \"layers/zz/attention.bias\"");
}

static void tombstones_are_few_and_forgotten(void **state)
{
	static struct tombstones tombstones;
	struct entry entry = {.owner.pid = 1};
	char *name = entry.info.name;
	int64_t now = 1000 * NS_PER_S;

	(void)state;
	assert_null(tombstone_find(&tombstones, "t", now));
	for (int i = 0; i < LIMIT_TOMBSTONES + 10; i++) {
		snprintf(name, sizeof(entry.info.name), "t%d", i);
		tombstone_add(&tombstones, &entry, DEPARTURE_LEASE, now);
	}
	assert_null(tombstone_find(&tombstones, "t9", now));
	assert_non_null(tombstone_find(&tombstones, "t10", now));
	assert_non_null(tombstone_find(&tombstones, name, now + LIMIT_TOMBSTONE_S * NS_PER_S));
	assert_null(tombstone_find(&tombstones, name, now + (LIMIT_TOMBSTONE_S + 1) * NS_PER_S));
	entry.owner.pid = 2;
	strcpy(name, "t500");
	tombstone_add(&tombstones, &entry, DEPARTURE_UNLINKED, now);
	assert_int_equal(tombstone_find(&tombstones, "t500", now)->owner.pid, 2); /* the latest */
}

static void distances(void **state)
{
	char long_key[4096] = "";

	(void)state;
	memset(long_key, 'a', sizeof(long_key) - 1);
	assert_int_equal(closest_distance(long_key, "weights", 2), 3);
	assert_int_equal(closest_distance("weights", long_key, 2), 3);
	assert_int_equal(closest_distance("weights", "weights", 2), 0);
	assert_int_equal(closest_distance("wieghts", "weights", 2), 2);
	assert_int_equal(closest_distance("weight", "weights", 2), 1);
	assert_int_equal(closest_distance("kitten", "sitting", 5), 3);
	assert_int_equal(closest_distance("kitten", "sitting", 2), 3);
	assert_int_equal(closest_distance("", "abc", 5), 3);
	assert_int_equal(closest_distance("abc", "", 5), 3);
	assert_int_equal(closest_distance("abcdef", "uvwxyz", 3), 4);
	assert_int_equal(closest_distance("", "", 2), 0);
	for (int length = 60; length <= 130; length++) { /* over the ends of words */
		char one[256] = "", other[256] = "";

		memset(one, 'a', (size_t)length);
		memset(other, 'a', (size_t)length);
		other[length / 2] = other[length - 1] = 'b';
		assert_int_equal(closest_distance(one, other, 5), 2);
		memmove(other + 1, other, (size_t)length);
		other[0] = 'c';
		assert_int_equal(closest_distance(one, other, 5), 3);
		assert_int_equal(closest_distance(other, one, 5), 3);
		assert_int_equal(closest_distance(other, one, 2), 3);
	}
}

static void a_slip_is_recognised(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");

	(void)state;
	assert_int_equal(peer_lookup(owner, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message, "no buffer is named \"x\"; nothing is shared now");
	peer_share(owner, "weights");
	assert_int_equal(peer_lookup(owner, "wieghts", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message,
			    "no buffer is named \"wieghts\"; did you mean \"weights\"?");
	assert_int_equal(peer_lookup(owner, "gradients", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message,
			    "no buffer is named \"gradients\"; run 'gpushare ls' to see what is");
	peer_share(owner, "weight3");
	peer_share(owner, "weight2");
	peer_share(owner, "wight");
	assert_int_equal(peer_lookup(owner, "weight", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message, "no buffer is named \"weight\"; did you mean "
						 "\"weight2\", \"weight3\" or \"weights\"?");
	assert_int_equal(peer_lookup(owner, "wigh", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("did you mean \"wight\"");
}

static void long_names_fit_a_sentence(void **state)
{
	struct lease *owner = peer_new(1, 10, "owner");
	char name[GPUSHARE_NAME_MAX + 1];
	uint8_t wire[gpushare_Reply_size];
	size_t size;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (char last = 'a'; last < 'e'; last++) {
		name[sizeof(name) - 2] = last;
		peer_share(owner, name);
	}
	name[sizeof(name) - 2] = 'z';
	assert_int_equal(peer_lookup(owner, name, 0), GPUSHARE_E_NOT_FOUND);
	assert_in_range(strlen(peer_answer.message), 400, sizeof(peer_answer.message) - 1);
	assert_int_equal(codec_encode_reply(&peer_answer, wire, sizeof(wire), &size), GPUSHARE_OK);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_taken_name_says_whose),
	    with_registry(a_closed_session_is_no_exit),
	    cmocka_unit_test_setup_teardown(many_that_come_close_cost_no_more, peer_set_up,
					    peer_tear_down),
	    cmocka_unit_test_setup_teardown(a_slip_is_found_among_thousands, peer_set_up,
					    peer_tear_down),
	    cmocka_unit_test(tombstones_are_few_and_forgotten),
	    cmocka_unit_test(distances),
	    with_registry(a_slip_is_recognised),
	    with_registry(long_names_fit_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
