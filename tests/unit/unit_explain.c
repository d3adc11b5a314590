/* SPDX-License-Identifier: MIT */
/* The sentences: whose a name is, who had it. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "peer.h"

static void a_taken_name_says_whose(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3"), *other = peer_new(2, 50, "other");
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
	struct session *owner = peer_new(1, 5, "x"), *other = peer_new(2, 20, "other");

	(void)state;
	process_read(getpid(), 1000, &owner->peer);
	peer_share(owner, "a");
	assert_null(registry_disconnect(peer_registry, owner));
	assert_int_equal(peer_lookup(other, "a", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("closed its session");
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
		tombstone_add(&tombstones, &entry, DEPARTURE_OWNER_GONE, now);
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

static void a_missing_name_says_what_to_do(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");

	(void)state;
	assert_int_equal(peer_lookup(owner, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message, "no buffer is named \"x\"; nothing is shared now");
	peer_share(owner, "weights");
	assert_int_equal(peer_lookup(owner, "gradients", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message,
			    "no buffer is named \"gradients\"; run 'gpushare ls' to see what is");
}

static void long_names_fit_a_sentence(void **state)
{
	struct session *owner = peer_new(1, 10, "owner");
	char name[GPUSHARE_NAME_MAX + 1];
	uint8_t wire[gpushare_Reply_size];
	size_t size;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	peer_share(owner, name);
	name[sizeof(name) - 2] = 'z';
	assert_int_equal(peer_lookup(owner, name, 0), GPUSHARE_E_NOT_FOUND);
	assert_in_range(strlen(peer_answer.message), 255, sizeof(peer_answer.message) - 1);
	assert_int_equal(codec_encode_reply(&peer_answer, wire, sizeof(wire), &size), GPUSHARE_OK);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_taken_name_says_whose),
	    with_registry(a_closed_session_is_no_exit),
	    cmocka_unit_test(tombstones_are_few_and_forgotten),
	    with_registry(a_missing_name_says_what_to_do),
	    with_registry(long_names_fit_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
