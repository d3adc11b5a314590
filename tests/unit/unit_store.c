/* SPDX-License-Identifier: MIT */
/* What the registry remembers and tells, without a socket: names, verbs, limits. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "peer.h"
#include "raw.h"

static void a_share_is_found(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3"), *other = peer_new(2, 50, "other");
	uint64_t generation = peer_share(owner, "weights");
	const record *info = &peer_answer.body.lookup.buffer;

	(void)state;
	assert_true(generation > 0);
	assert_int_equal(peer_lookup(other, "weights", 0), GPUSHARE_OK);
	assert_true(peer_answer.body.lookup.has_buffer);
	assert_string_equal(info->name, "weights");
	assert_true(info->generation == generation);
	assert_int_equal(info->size, 100);
	assert_int_equal(info->base_offset, 28);
	assert_int_equal(info->owner_pid, 4711);
	assert_int_equal(info->owner_uid, 1000);
	assert_int_equal(info->owner_started, 47110);
	assert_string_equal(info->owner_command, "python3");
	assert_true(clock_unix_ns() - info->created_unix_ns < 10 * (uint64_t)NS_PER_S);
}

/* What a client writes into the registry's fields is not believed. */
static void the_registry_fills_in_its_own(void **state)
{
	struct session *owner = peer_new(1, 4711, "python3");
	request what = peer_share_of("x");
	record *told = &what.verb.share.buffer;

	(void)state;
	told->generation = 1;
	told->owner_uid = 0;
	told->owner_pid = 1;
	told->owner_started = 1;
	told->attachers = 9;
	told->mode = 0777;
	told->created_unix_ns = 1;
	strcpy(told->owner_command, "init");
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(peer_lookup(owner, "x", 0), GPUSHARE_OK);
	told = &peer_answer.body.lookup.buffer;
	assert_true(told->generation > 1);
	assert_int_equal(told->owner_uid, 1000);
	assert_int_equal(told->owner_pid, 4711);
	assert_int_equal(told->owner_started, 47110);
	assert_int_equal(told->attachers, 0);
	assert_int_equal(told->mode, 0600);
	assert_true(told->created_unix_ns > 1);
	assert_string_equal(told->owner_command, "python3");
}

static void the_address_is_the_owners_secret(void **state)
{
	struct session *owner = peer_new(1, 4711, "app"), *same = peer_new(2, 4711, "app");
	struct session *other = peer_new(3, 4712, "app"), *reused = peer_new(4, 4711, "app");

	(void)state;
	reused->peer.started++; /* the pid was given to another process since */
	peer_share(owner, "x");
	assert_int_equal(peer_attach(same, "x"), GPUSHARE_OK);
	assert_true(peer_answer.body.attach.own);
	assert_true(peer_answer.body.attach.buffer.address == 0x7f0000001000);
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_false(peer_answer.body.attach.own);
	assert_int_equal(peer_answer.body.attach.buffer.address, 0);
	assert_int_equal(peer_answer.body.attach.handle[63], 0xab);
	assert_int_equal(peer_attach(reused, "x"), GPUSHARE_OK);
	assert_false(peer_answer.body.attach.own);
	assert_int_equal(peer_answer.body.attach.buffer.address, 0);
	assert_int_equal(peer_lookup(other, "x", 0), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.lookup.buffer.address, 0);
}

static void nobody_invisible_owns_the_other(void **state)
{
	struct session *owner = peer_new(1, 0, ""), *other = peer_new(2, 0, "");

	(void)state;
	peer_share(owner, "x");
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_false(peer_answer.body.attach.own);
}

static void a_bad_share_is_refused(void **state)
{
	struct session *owner = peer_new(1, 10, "app");
	request what;

	(void)state;
#define refused(change, status) \
	do { \
		what = peer_share_of("x"); \
		change; \
		assert_int_equal(peer_ask(owner, &what), status); \
		assert_true(*peer_answer.message); \
		assert_int_equal(peer_registry->store.count, 0); \
	} while (0)
	refused(what.verb.share.buffer.name[0] = '\0', GPUSHARE_E_NAME);
	refused(what.verb.share.buffer.size = 0, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.base_offset = 29, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.base_offset = UINT64_MAX - 50, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.size = UINT64_MAX, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.base_size = 0, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.backing = 0, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.backing = 77, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = 8, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_VMM, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.flags = GPUSHARE_FLAG_READONLY, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.ttl_s = 5, GPUSHARE_E_INVALID);
	refused(what.verb.share.adopt = true, GPUSHARE_E_INVALID);
	refused(memset(what.verb.share.buffer.device_uuid, 0, 16), GPUSHARE_E_INVALID);
	refused(memset(what.verb.share.handle, 0, 64), GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.tags_count = 1, GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 1,
		 strcpy(what.verb.share.buffer.tags[0].key, "a/b")),
		GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 1,
		 strcpy(what.verb.share.buffer.tags[0].key, "k"),
		 strcpy(what.verb.share.buffer.tags[0].value, "\x1b[2J")),
		GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 2,
		 strcpy(what.verb.share.buffer.tags[0].key, "k"),
		 strcpy(what.verb.share.buffer.tags[1].key, "k")),
		GPUSHARE_E_INVALID);
#undef refused
	/* one byte of one handle byte is a handle, and the whole allocation is a range */
	what = peer_share_of("x");
	memset(what.verb.share.handle, 0, 63);
	what.verb.share.buffer.base_offset = 0;
	what.verb.share.buffer.size = 128;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
}

static void hello_comes_first(void **state)
{
	struct session *session = peer_new(1, 10, "app");
	request hello = {.which_verb = gpushare_Request_hello_tag};

	(void)state;
	session->greeted = false;
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_PROTOCOL);
	peer_assert_sentence("hello");
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL + 6;
	strcpy(hello.verb.hello.client, "shim 9.9");
	assert_int_equal(peer_ask(session, &hello), GPUSHARE_E_NOT_SUPPORTED);
	peer_assert_sentence("speaks protocol 1");
	peer_assert_sentence("(shim 9.9) speaks protocol 7");
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_PROTOCOL);
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(peer_ask(session, &hello), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.hello.pid, getpid());
	assert_string_equal(peer_answer.body.hello.version, GPUSHARE_VERSION);
	assert_int_equal(peer_lookup(session, "x", 0), GPUSHARE_E_NOT_FOUND);
}

static void limits_are_answered(void **state)
{
	struct session *session = peer_new(1, 10, "app"), *other = peer_new(2, 20, "other");
	request what = peer_share_of("c"), hello = {.which_verb = gpushare_Request_hello_tag};
	struct waiter waiter = {.session = session, .ask = &what};

	(void)state;
	peer_registry->limits.names = 2;
	peer_registry->limits.attachments = 2;
	peer_registry->limits.connections = 1;
	peer_registry->limits.waiters = 1;
	peer_share(session, "a");
	peer_share(session, "b");
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_LIMIT);
	peer_assert_sentence("2 names are shared");
	assert_int_equal(peer_attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(peer_attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(peer_attach(other, "b"), GPUSHARE_E_LIMIT);
	peer_assert_sentence("2 attachments");
	registry_park(peer_registry, &waiter);
	assert_int_equal(peer_lookup(other, "zz", 10), GPUSHARE_E_LIMIT);
	peer_assert_sentence("1 requests wait");
	assert_int_equal(peer_lookup(other, "zz", 0), GPUSHARE_E_NOT_FOUND);
	registry_unpark(peer_registry, &waiter);
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(peer_ask(other, &hello), GPUSHARE_E_LIMIT);
	peer_assert_sentence("1 connections are open");
	/* and they give way */
	assert_int_equal(peer_withdraw(session, "b", 0), GPUSHARE_OK);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
}

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

	(void)state;
	for (int i = 0; i < 200000; i++) {
		request what;
		int64_t before_ns;

		snprintf(name, sizeof(name), "n%d", i);
		what = peer_share_of(name);
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
	const struct store *store = &peer_registry->store;
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

	(void)state;
	for (int round = 0; round < 5000; round++) {
		request what;

		seed = seed * 1664525 + 1013904223;
		snprintf(name, sizeof(name), "n%u", seed >> 8 & 127);
		what = peer_share_of(name);
		if (peer_ask(owner, &what) == GPUSHARE_E_EXISTS)
			assert_int_equal(peer_withdraw(owner, name, 0), GPUSHARE_OK);
		assert_int_equal(named(), peer_registry->store.count);
	}
	assert_in_range(peer_registry->store.count, 20, 110);
}

static void stat_counts(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	request what = {.which_verb = gpushare_Request_stat_tag};

	(void)state;
	peer_share(owner, "a");
	assert_int_equal(peer_attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(peer_ask(other, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.stat.names, 1);
	assert_int_equal(peer_answer.body.stat.attachments, 1);
	assert_int_equal(peer_answer.body.stat.connections, 2);
	assert_int_equal(peer_answer.body.stat.waiters, 0);
	assert_int_equal(peer_answer.body.stat.requests, 3);
	assert_true(peer_answer.body.stat.started_unix_ns > 0);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_share_is_found),
	    with_registry(the_registry_fills_in_its_own),
	    with_registry(the_address_is_the_owners_secret),
	    with_registry(nobody_invisible_owns_the_other),
	    with_registry(a_bad_share_is_refused),
	    with_registry(hello_comes_first),
	    with_registry(limits_are_answered),
	    with_registry(none_of_many_takes_long),
	    with_registry(the_order_survives_changes),
	    with_registry(stat_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
