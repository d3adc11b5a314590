/* SPDX-License-Identifier: MIT */
/* What the registry remembers, without a socket: names, leases, verbs, sentences, generations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "closest.h"
#include "explain.h"
#include "handlers.h"

static struct registry *registry;
static reply answer;

static struct lease *peer(uint32_t id, int32_t pid, const char *command)
{
	struct process process = {.pid = pid, .uid = 1000, .started = (uint64_t)pid * 10};
	struct lease *lease;

	strcpy(process.command, command);
	lease = registry_connect(registry, id, &process);
	assert_non_null(lease);
	lease->greeted = true;
	return lease;
}

static int set_up(void **state)
{
	(void)state;
	registry = registry_new(NULL);
	return registry ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	registry = registry_free(registry);
	return 0;
}

static int ask(struct lease *lease, const request *what)
{
	int status = handle_request(registry, lease, what, &answer);

	assert_int_equal(status, answer.status);
	return status;
}

static request share_of(const char *name)
{
	request what = {.which_verb = gpushare_Request_share_tag};
	gpushare_Share *share = &what.verb.share;

	share->has_buffer = true;
	strcpy(share->buffer.name, name);
	share->buffer.size = 100;
	share->buffer.base_offset = 28;
	share->buffer.base_size = 128;
	share->buffer.backing = GPUSHARE_BACKING_IPC;
	share->buffer.address = 0x7f0000001000;
	memset(share->buffer.device_uuid, 0xd, sizeof(share->buffer.device_uuid));
	memset(share->handle, 0xab, sizeof(share->handle));
	return what;
}

static uint64_t share(struct lease *lease, const char *name)
{
	request what = share_of(name);

	assert_int_equal(ask(lease, &what), GPUSHARE_OK);
	return answer.body.share.generation;
}

static int lookup(struct lease *lease, const char *name, uint32_t wait_ms)
{
	request what = {.which_verb = gpushare_Request_lookup_tag};

	strcpy(what.verb.lookup.name, name);
	what.verb.lookup.wait_ms = wait_ms;
	return ask(lease, &what);
}

static int attach(struct lease *lease, const char *name)
{
	request what = {.which_verb = gpushare_Request_attach_tag};

	strcpy(what.verb.attach.name, name);
	return ask(lease, &what);
}

static int detach(struct lease *lease, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_detach_tag};

	strcpy(what.verb.detach.name, name);
	what.verb.detach.generation = generation;
	return ask(lease, &what);
}

static int withdraw(struct lease *lease, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_withdraw_tag};

	strcpy(what.verb.withdraw.name, name);
	what.verb.withdraw.generation = generation;
	return ask(lease, &what);
}

static uint32_t attachers(struct lease *lease, const char *name)
{
	assert_int_equal(lookup(lease, name, 0), GPUSHARE_OK);
	return answer.body.lookup.buffer.attachers;
}

static void assert_sentence(const char *part)
{
	if (!strstr(answer.message, part))
		fail_msg("\"%s\" is not in: %s", part, answer.message);
}

static void a_share_is_found(void **state)
{
	struct lease *owner = peer(1, 4711, "python3"), *other = peer(2, 50, "other");
	uint64_t generation = share(owner, "weights");
	const record *info = &answer.body.lookup.buffer;

	(void)state;
	assert_true(generation > 0);
	assert_int_equal(lookup(other, "weights", 0), GPUSHARE_OK);
	assert_true(answer.body.lookup.has_buffer);
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
	struct lease *owner = peer(1, 4711, "python3");
	request what = share_of("x");
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
	assert_int_equal(ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(lookup(owner, "x", 0), GPUSHARE_OK);
	told = &answer.body.lookup.buffer;
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
	struct lease *owner = peer(1, 4711, "app"), *same = peer(2, 4711, "app");
	struct lease *other = peer(3, 4712, "app"), *reused = peer(4, 4711, "app");

	(void)state;
	reused->peer.started++; /* the pid was given to another process since */
	share(owner, "x");
	assert_int_equal(attach(same, "x"), GPUSHARE_OK);
	assert_true(answer.body.attach.own);
	assert_true(answer.body.attach.buffer.address == 0x7f0000001000);
	assert_int_equal(attach(other, "x"), GPUSHARE_OK);
	assert_false(answer.body.attach.own);
	assert_int_equal(answer.body.attach.buffer.address, 0);
	assert_int_equal(answer.body.attach.handle[63], 0xab);
	assert_int_equal(attach(reused, "x"), GPUSHARE_OK);
	assert_false(answer.body.attach.own);
	assert_int_equal(answer.body.attach.buffer.address, 0);
	assert_int_equal(lookup(other, "x", 0), GPUSHARE_OK);
	assert_int_equal(answer.body.lookup.buffer.address, 0);
}

static void nobody_invisible_owns_the_other(void **state)
{
	struct lease *owner = peer(1, 0, ""), *other = peer(2, 0, "");

	(void)state;
	share(owner, "x");
	assert_int_equal(attach(other, "x"), GPUSHARE_OK);
	assert_false(answer.body.attach.own);
}

static void a_bad_share_is_refused(void **state)
{
	struct lease *owner = peer(1, 10, "app");
	request what;

	(void)state;
#define refused(change, status) \
	do { \
		what = share_of("x"); \
		change; \
		assert_int_equal(ask(owner, &what), status); \
		assert_true(*answer.message); \
		assert_int_equal(registry->store.count, 0); \
	} while (0)
	refused(what.verb.share.buffer.name[0] = '\0', GPUSHARE_E_NAME);
	refused(what.verb.share.buffer.size = 0, GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.base_offset = 29, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.base_offset = UINT64_MAX - 50, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.size = UINT64_MAX, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.base_size = 0, GPUSHARE_E_RANGE);
	refused(what.verb.share.buffer.backing = 0, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.backing = 77, GPUSHARE_E_NOT_SUPPORTED);
	refused(what.verb.share.buffer.flags = 1, GPUSHARE_E_NOT_SUPPORTED);
	refused(memset(what.verb.share.buffer.device_uuid, 0, 16), GPUSHARE_E_INVALID);
	refused(memset(what.verb.share.handle, 0, 64), GPUSHARE_E_INVALID);
	refused(what.verb.share.buffer.tags_count = 1, GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 1,
		 strcpy(what.verb.share.buffer.tags[0].key, "a/b")), GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 1,
		 strcpy(what.verb.share.buffer.tags[0].key, "k"),
		 strcpy(what.verb.share.buffer.tags[0].value, "\x1b[2J")), GPUSHARE_E_INVALID);
	refused((what.verb.share.buffer.tags_count = 2,
		 strcpy(what.verb.share.buffer.tags[0].key, "k"),
		 strcpy(what.verb.share.buffer.tags[1].key, "k")), GPUSHARE_E_INVALID);
#undef refused
	/* one byte of one handle byte is a handle, and the whole allocation is a range */
	what = share_of("x");
	memset(what.verb.share.handle, 0, 63);
	what.verb.share.buffer.base_offset = 0;
	what.verb.share.buffer.size = 128;
	assert_int_equal(ask(owner, &what), GPUSHARE_OK);
}

static void hello_comes_first(void **state)
{
	struct lease *lease = peer(1, 10, "app");
	request hello = {.which_verb = gpushare_Request_hello_tag};

	(void)state;
	lease->greeted = false;
	assert_int_equal(lookup(lease, "x", 0), GPUSHARE_E_PROTOCOL);
	assert_sentence("hello");
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL + 6;
	strcpy(hello.verb.hello.client, "shim 9.9");
	assert_int_equal(ask(lease, &hello), GPUSHARE_E_NOT_SUPPORTED);
	assert_sentence("speaks protocol 1");
	assert_sentence("(shim 9.9) speaks protocol 7");
	assert_int_equal(lookup(lease, "x", 0), GPUSHARE_E_PROTOCOL);
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(ask(lease, &hello), GPUSHARE_OK);
	assert_int_equal(answer.body.hello.pid, getpid());
	assert_string_equal(answer.body.hello.version, GPUSHARE_VERSION);
	assert_int_equal(lookup(lease, "x", 0), GPUSHARE_E_NOT_FOUND);
}

static void a_taken_name_says_whose(void **state)
{
	struct lease *owner = peer(1, 4711, "python3"), *other = peer(2, 50, "other");
	request what = share_of("weights");

	(void)state;
	share(owner, "weights");
	store_find(&registry->store, "weights")->created_ns -= 12 * NS_PER_S;
	assert_int_equal(ask(other, &what), GPUSHARE_E_EXISTS);
	assert_string_equal(answer.message, "\"weights\" is taken by pid 4711 (python3), uid 1000, "
					    "since 12 s; choose another name or end that process");
	assert_int_equal(ask(owner, &what), GPUSHARE_E_EXISTS);
}

static void attachers_are_counted(void **state)
{
	struct lease *owner = peer(1, 10, "owner"), *a = peer(2, 20, "a"), *b = peer(3, 30, "b");
	uint64_t generation = share(owner, "x");

	(void)state;
	assert_int_equal(attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(answer.body.attach.buffer.attachers, 1);
	assert_int_equal(attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(attach(owner, "x"), GPUSHARE_OK); /* not an attacher */
	assert_int_equal(attachers(owner, "x"), 3);
	assert_int_equal(registry->leases.attachments, 4);

	assert_int_equal(detach(a, "x", generation), GPUSHARE_OK);
	assert_int_equal(attachers(owner, "x"), 2);
	assert_int_equal(detach(a, "x", generation), GPUSHARE_OK);
	assert_int_equal(detach(a, "x", generation), GPUSHARE_E_NOT_FOUND);
	assert_sentence("has not attached \"x\"");
	assert_int_equal(detach(b, "x", generation + 1), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(detach(b, "y", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(detach(owner, "x", generation), GPUSHARE_OK);
	assert_int_equal(attachers(owner, "x"), 1);
	assert_null(registry_disconnect(registry, b));
	assert_int_equal(attachers(owner, "x"), 0);
	assert_int_equal(registry->leases.attachments, 0);
}

static void an_attachment_outlives_the_name(void **state)
{
	struct lease *owner = peer(1, 10, "owner"), *a = peer(2, 20, "a");
	uint64_t first = share(owner, "x"), second;

	(void)state;
	assert_int_equal(attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(withdraw(owner, "x", first), GPUSHARE_OK);
	assert_int_equal(registry->leases.attachments, 1);
	second = share(owner, "x");
	assert_true(second > first);
	assert_int_equal(attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(detach(a, "x", first), GPUSHARE_OK);
	assert_int_equal(attachers(owner, "x"), 1); /* that of the second */
	assert_int_equal(detach(a, "x", first), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(detach(a, "x", second), GPUSHARE_OK);
	assert_int_equal(attachers(owner, "x"), 0);
}

static void only_the_lease_withdraws_a_generation(void **state)
{
	struct lease *owner = peer(1, 10, "owner"), *other = peer(2, 20, "other");
	uint64_t generation = share(owner, "x");

	(void)state;
	assert_int_equal(withdraw(other, "x", generation), GPUSHARE_E_DENIED);
	assert_int_equal(withdraw(owner, "x", generation + 1), GPUSHARE_E_NOT_FOUND);
	assert_sentence("another buffer now");
	assert_int_equal(registry->store.count, 1);
	assert_int_equal(withdraw(owner, "x", generation), GPUSHARE_OK);
	assert_int_equal(withdraw(owner, "x", generation), GPUSHARE_E_NOT_FOUND);
	assert_sentence("pid 10 (owner) withdrew it 0 s ago");
}

static void the_same_user_unlinks(void **state)
{
	struct lease *owner = peer(1, 10, "owner"), *other = peer(2, 20, "other");
	struct lease *stranger = peer(3, 30, "stranger");

	(void)state;
	stranger->peer.uid = 1001;
	share(owner, "x");
	assert_int_equal(withdraw(stranger, "x", 0), GPUSHARE_E_DENIED);
	assert_int_equal(withdraw(other, "x", 0), GPUSHARE_OK);
	assert_int_equal(lookup(other, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(answer.message,
			    "\"x\" is gone: it was unlinked 0 s ago; pid 10 (owner) had it");
	share(owner, "x"); /* the name is free, and the owner's lease holds together */
	assert_null(registry_disconnect(registry, owner));
	assert_int_equal(registry->store.count, 0);
}

static void a_lease_takes_its_names_along(void **state)
{
	struct lease *owner = peer(1, 0x7ffffff0, "app"), *other = peer(2, 20, "other");
	struct tombstone *tombstone;

	(void)state;
	share(owner, "a");
	share(other, "b");
	share(owner, "c");
	assert_int_equal(attach(owner, "b"), GPUSHARE_OK);
	assert_null(registry_disconnect(registry, owner));
	assert_int_equal(registry->store.count, 1);
	assert_int_equal(attachers(other, "b"), 0);
	assert_int_equal(lookup(other, "a", 0), GPUSHARE_E_NOT_FOUND);
	tombstone = (struct tombstone *)tombstone_find(&registry->tombstones, "c", clock_ns());
	tombstone->when_ns -= 3 * NS_PER_S;
	assert_int_equal(lookup(other, "c", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(answer.message, "\"c\" is gone: pid 2147483632 (app) exited 3 s ago");
}

static void a_closed_session_is_no_exit(void **state)
{
	struct lease *owner = peer(1, 5, "x"), *other = peer(2, 20, "other");

	(void)state;
	process_read(getpid(), getuid(), &owner->peer);
	share(owner, "a");
	assert_null(registry_disconnect(registry, owner));
	assert_int_equal(lookup(other, "a", 0), GPUSHARE_E_NOT_FOUND);
	assert_sentence("closed its session");
}

static void tombstones_are_few_and_forgotten(void **state)
{
	static struct tombstones tombstones;
	struct process owner = {.pid = 1};
	char name[16];
	int64_t now = 1000 * NS_PER_S;

	(void)state;
	assert_null(tombstone_find(&tombstones, "t", now));
	for (int i = 0; i < LIMIT_TOMBSTONES + 10; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		tombstone_add(&tombstones, name, &owner, DEPARTURE_LEASE, now);
	}
	assert_null(tombstone_find(&tombstones, "t9", now));
	assert_non_null(tombstone_find(&tombstones, "t10", now));
	assert_non_null(tombstone_find(&tombstones, name, now + LIMIT_TOMBSTONE_S * NS_PER_S));
	assert_null(tombstone_find(&tombstones, name, now + (LIMIT_TOMBSTONE_S + 1) * NS_PER_S));
	owner.pid = 2;
	tombstone_add(&tombstones, "t500", &owner, DEPARTURE_UNLINKED, now);
	assert_int_equal(tombstone_find(&tombstones, "t500", now)->owner.pid, 2); /* the latest */
}

static void distances(void **state)
{
	(void)state;
	assert_int_equal(closest_distance("weights", "weights", 2), 0);
	assert_int_equal(closest_distance("wieghts", "weights", 2), 2);
	assert_int_equal(closest_distance("weight", "weights", 2), 1);
	assert_int_equal(closest_distance("kitten", "sitting", 5), 3);
	assert_int_equal(closest_distance("kitten", "sitting", 2), 3);
	assert_int_equal(closest_distance("", "abc", 5), 3);
	assert_int_equal(closest_distance("abc", "", 5), 3);
	assert_int_equal(closest_distance("abcdef", "uvwxyz", 3), 4);
}

static void a_slip_is_recognised(void **state)
{
	struct lease *owner = peer(1, 10, "owner");

	(void)state;
	assert_int_equal(lookup(owner, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(answer.message, "no buffer is named \"x\"; nothing is shared now");
	share(owner, "weights");
	assert_int_equal(lookup(owner, "wieghts", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(answer.message, "no buffer is named \"wieghts\"; did you mean \"weights\"?");
	assert_int_equal(lookup(owner, "gradients", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(answer.message,
			    "no buffer is named \"gradients\"; run 'gpushare ls' to see what is");
	share(owner, "weight3");
	share(owner, "weight2");
	share(owner, "wight");
	assert_int_equal(lookup(owner, "weight", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(answer.message, "no buffer is named \"weight\"; did you mean "
					    "\"weight2\", \"weight3\" or \"weights\"?");
	assert_int_equal(lookup(owner, "wigh", 0), GPUSHARE_E_NOT_FOUND);
	assert_sentence("did you mean \"wight\"");
}

static void long_names_fit_a_sentence(void **state)
{
	struct lease *owner = peer(1, 10, "owner");
	char name[GPUSHARE_NAME_MAX + 1];
	uint8_t wire[gpushare_Reply_size];
	size_t size;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (char last = 'a'; last < 'e'; last++) {
		name[sizeof(name) - 2] = last;
		share(owner, name);
	}
	name[sizeof(name) - 2] = 'z';
	assert_int_equal(lookup(owner, name, 0), GPUSHARE_E_NOT_FOUND);
	assert_in_range(strlen(answer.message), 400, sizeof(answer.message) - 1);
	assert_int_equal(codec_encode_reply(&answer, wire, sizeof(wire), &size), GPUSHARE_OK);
}

static void waiting_is_left_to_the_caller(void **state)
{
	struct lease *lease = peer(1, 10, "app");
	request what = {.which_verb = gpushare_Request_attach_tag};

	(void)state;
	assert_int_equal(lookup(lease, "x", 5), HANDLE_WAIT);
	strcpy(what.verb.attach.name, "x");
	what.verb.attach.wait_ms = UINT32_MAX;
	assert_int_equal(ask(lease, &what), HANDLE_WAIT);
	assert_string_equal(handle_wait_name(&what), "x");
	assert_int_equal(handle_wait_ms(&what), 24 * 3600 * 1000);
	handle_timeout(registry, &what, &answer);
	assert_int_equal(answer.status, GPUSHARE_E_TIMED_OUT);
	assert_string_equal(answer.message, "no buffer is named \"x\"; nothing is shared now");
	share(lease, "x");
	assert_int_equal(lookup(lease, "x", 5), GPUSHARE_OK);
}

static void the_waiters_of_a_lease_come_back(void **state)
{
	struct lease *a = peer(1, 10, "a"), *b = peer(2, 20, "b");
	request what = {.which_verb = gpushare_Request_lookup_tag};
	struct waiter waiters[3] = {
		{.lease = a, .ask = &what, .deadline_ns = 30},
		{.lease = b, .ask = &what, .deadline_ns = 20},
		{.lease = a, .ask = &what, .deadline_ns = 10},
	};
	struct waiter *taken;

	(void)state;
	assert_true(registry_next_deadline_ns(registry) == INT64_MAX);
	for (int i = 0; i < 3; i++)
		registry_park(registry, &waiters[i]);
	assert_int_equal(registry_next_deadline_ns(registry), 10);
	taken = registry_disconnect(registry, a);
	assert_ptr_equal(taken, &waiters[0]);
	assert_ptr_equal(taken->next, &waiters[2]);
	assert_null(taken->next->next);
	assert_int_equal(registry->waiter_count, 1);
	assert_int_equal(registry_next_deadline_ns(registry), 20);
	registry_unpark(registry, &waiters[1]);
}

static void limits_are_answered(void **state)
{
	struct lease *lease = peer(1, 10, "app"), *other = peer(2, 20, "other");
	request what = share_of("c"), hello = {.which_verb = gpushare_Request_hello_tag};
	struct waiter waiter = {.lease = lease, .ask = &what};

	(void)state;
	registry->limits = (struct limits){2, 2, 1, 1};
	share(lease, "a");
	share(lease, "b");
	assert_int_equal(ask(lease, &what), GPUSHARE_E_LIMIT);
	assert_sentence("2 names are shared");
	assert_int_equal(attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(attach(other, "b"), GPUSHARE_E_LIMIT);
	assert_sentence("2 attachments");
	registry_park(registry, &waiter);
	assert_int_equal(lookup(other, "zz", 10), GPUSHARE_E_LIMIT);
	assert_sentence("1 requests wait");
	assert_int_equal(lookup(other, "zz", 0), GPUSHARE_E_NOT_FOUND);
	registry_unpark(registry, &waiter);
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	assert_int_equal(ask(other, &hello), GPUSHARE_E_LIMIT);
	assert_sentence("1 connections are open");
	/* and they give way */
	assert_int_equal(withdraw(lease, "b", 0), GPUSHARE_OK);
	assert_int_equal(ask(lease, &what), GPUSHARE_OK);
}

static int list(struct lease *lease, const char *glob, const char *after, uint32_t limit)
{
	request what = {.which_verb = gpushare_Request_list_tag};

	strcpy(what.verb.list.glob, glob);
	strcpy(what.verb.list.after, after);
	what.verb.list.limit = limit;
	assert_int_equal(ask(lease, &what), GPUSHARE_OK);
	return answer.body.list.buffers_count;
}

static void a_list_is_paged_in_byte_order(void **state)
{
	struct lease *owner = peer(1, 10, "owner");
	char name[16], last[GPUSHARE_NAME_MAX + 1] = "";
	int seen = 0, pages = 0;

	(void)state;
	assert_int_equal(list(owner, "", "", 0), 0);
	assert_false(answer.body.list.more);
	for (int i = 0; i < 200; i++) { /* in no order */
		snprintf(name, sizeof(name), "n%03d", i * 77 % 200);
		share(owner, name);
	}
	share(owner, "Z/upper");
	do {
		int count = list(owner, "n*", last, 0);

		assert_in_range(count, 1, LIMIT_PAGE);
		for (int i = 0; i < count; i++, seen++) {
			snprintf(name, sizeof(name), "n%03d", seen);
			assert_string_equal(answer.body.list.buffers[i].name, name);
		}
		strcpy(last, name);
		pages++;
	} while (answer.body.list.more);
	assert_int_equal(seen, 200);
	assert_int_equal(pages, 13);

	assert_int_equal(list(owner, "", "", 1), 1);
	assert_string_equal(answer.body.list.buffers[0].name, "Z/upper");
	assert_int_equal(list(owner, "", "", 99999), LIMIT_PAGE);
	assert_int_equal(list(owner, "*er", "", 0), 1); /* '*' matches '/' */
	assert_false(answer.body.list.more);
	assert_int_equal(list(owner, "n00[0-3]", "", 4), 4);
	assert_false(answer.body.list.more); /* nothing that matches comes after */
	assert_int_equal(list(owner, "n00[0-3]", "", 3), 3);
	assert_true(answer.body.list.more);
	assert_int_equal(list(owner, "", "n199", 0), 0);
	assert_int_equal(list(owner, "", "n1985", 0), 1); /* a cursor need not exist */
	assert_int_equal(list(owner, "[", "", 0), 0);
}

/* A glob must not be able to hold the lock. */
static void a_hostile_glob_is_cheap(void **state)
{
	struct lease *owner = peer(1, 10, "owner");
	char name[GPUSHARE_NAME_MAX + 1], glob[GPUSHARE_NAME_MAX + 1];
	int64_t begin;

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	share(owner, name);
	for (size_t i = 0; i < sizeof(glob) - 1; i++)
		glob[i] = i % 2 ? 'a' : '*';
	strcpy(glob + 200, "*b");
	begin = clock_ns();
	assert_int_equal(list(owner, glob, "", 0), 0);
	assert_true(clock_ns() - begin < 500 * NS_PER_MS);
}

static void the_order_survives_changes(void **state)
{
	struct lease *owner = peer(1, 10, "owner");
	uint32_t seed = 7;
	char name[16];

	(void)state;
	for (int round = 0; round < 5000; round++) {
		request what;

		seed = seed * 1664525 + 1013904223;
		snprintf(name, sizeof(name), "n%u", seed >> 8 & 127);
		what = share_of(name);
		if (ask(owner, &what) == GPUSHARE_E_EXISTS)
			assert_int_equal(withdraw(owner, name, 0), GPUSHARE_OK);
		assert_int_equal(HASH_COUNT(registry->store.by_name), registry->store.count);
	}
	for (size_t i = 0; i < registry->store.count; i++) {
		const char *here = store_at(&registry->store, i)->info.name;

		assert_ptr_equal(store_find(&registry->store, here), store_at(&registry->store, i));
		if (i > 0)
			assert_true(strcmp(store_at(&registry->store, i - 1)->info.name, here) < 0);
	}
	assert_null(store_at(&registry->store, registry->store.count));
	assert_in_range(registry->store.count, 20, 110);
}

static void stat_counts(void **state)
{
	struct lease *owner = peer(1, 10, "owner"), *other = peer(2, 20, "other");
	request what = {.which_verb = gpushare_Request_stat_tag};

	(void)state;
	share(owner, "a");
	assert_int_equal(attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(ask(other, &what), GPUSHARE_OK);
	assert_int_equal(answer.body.stat.names, 1);
	assert_int_equal(answer.body.stat.attachments, 1);
	assert_int_equal(answer.body.stat.connections, 2);
	assert_int_equal(answer.body.stat.waiters, 0);
	assert_int_equal(answer.body.stat.requests, 3);
	assert_true(answer.body.stat.started_unix_ns > 0);
}

static void a_process_is_told_from_its_successor(void **state)
{
	struct process me, child;
	pid_t pid;

	(void)state;
	process_read(getpid(), getuid(), &me);
	assert_true(me.started > 0);
	assert_true(*me.command);
	assert_true(process_runs(&me));
	assert_true(process_is_same(&me, &me));
	me.started--;
	assert_false(process_runs(&me));

	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	process_read(pid, getuid(), &child);
	assert_true(child.started > 0);
	assert_false(process_runs(&child)); /* a zombie holds nothing */
	waitpid(pid, NULL, 0);
	process_read(pid, getuid(), &child);
	assert_int_equal(child.started, 0);
	assert_string_equal(child.command, "");
	process_read(0, 5, &child);
	assert_int_equal(child.uid, 5);
	assert_false(process_runs(&child));
}

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/gpushare-unit-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/generation", folder);
	if (unlink(path))
		rmdir(path);
	return rmdir(folder);
}

static void write_generation(const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/generation", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static uint64_t first_generation(void)
{
	struct generation generation;
	uint64_t first;

	generation_init(&generation, folder);
	first = generation_take(&generation);
	generation_finish(&generation);
	return first;
}

static void generations_are_never_reused(void **state)
{
	struct generation generation;
	uint64_t last = 0;

	(void)state;
	for (int start = 0; start < 5; start++) {
		generation_init(&generation, folder);
		/* more than one reservation holds */
		for (int i = 0; i < (start == 2 ? 3000000 : 1000); i++) {
			uint64_t next = generation_take(&generation);

			if (next <= last)
				fail_msg("%" PRIu64 " after %" PRIu64, next, last);
			last = next;
		}
		generation_finish(&generation);
	}
}

static void the_file_wins_over_a_clock_set_back(void **state)
{
	uint64_t ahead = clock_unix_ns() / 1000 + UINT64_C(1000000) * 3600 * 24 * 365;
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%" PRIu64 "\n", ahead);
	write_generation(text);
	assert_true(first_generation() > ahead);
	assert_true(first_generation() > ahead + 1000000); /* what the first had reserved */
}

static void a_garbage_file_is_survived(void **state)
{
	static const char *const garbage[] = {
		"", "\n", "hello\n", "-5\n", "12", "12\n13\n", " 7\n", "0x99\n",
		"18446744073709551615\n", "99999999999999999999999999\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
		uint64_t clock = clock_unix_ns() / 1000, first;

		write_generation(garbage[i]);
		first = first_generation();
		assert_in_range(first, clock, clock + 60 * 1000000);
	}
}

static void an_unwritable_file_is_survived(void **state)
{
	uint64_t clock = clock_unix_ns() / 1000;
	struct generation generation;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/generation", folder);
	assert_int_equal(mkdir(path, 0700), 0); /* in the way for root, too */
	assert_in_range(first_generation(), clock, clock + 60 * 1000000);
	snprintf(path, sizeof(path), "%s/generation.new", folder);
	unlink(path);
	generation_init(&generation, "/nonexistent/folder");
	assert_in_range(generation_take(&generation), clock, clock + 60 * 1000000);
	generation_finish(&generation);
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define with_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_registry(a_share_is_found),
		with_registry(the_registry_fills_in_its_own),
		with_registry(the_address_is_the_owners_secret),
		with_registry(nobody_invisible_owns_the_other),
		with_registry(a_bad_share_is_refused),
		with_registry(hello_comes_first),
		with_registry(a_taken_name_says_whose),
		with_registry(attachers_are_counted),
		with_registry(an_attachment_outlives_the_name),
		with_registry(only_the_lease_withdraws_a_generation),
		with_registry(the_same_user_unlinks),
		with_registry(a_lease_takes_its_names_along),
		with_registry(a_closed_session_is_no_exit),
		cmocka_unit_test(tombstones_are_few_and_forgotten),
		cmocka_unit_test(distances),
		with_registry(a_slip_is_recognised),
		with_registry(long_names_fit_a_sentence),
		with_registry(waiting_is_left_to_the_caller),
		with_registry(the_waiters_of_a_lease_come_back),
		with_registry(limits_are_answered),
		with_registry(a_list_is_paged_in_byte_order),
		with_registry(a_hostile_glob_is_cheap),
		with_registry(the_order_survives_changes),
		with_registry(stat_counts),
		cmocka_unit_test(a_process_is_told_from_its_successor),
		with_folder(generations_are_never_reused),
		with_folder(the_file_wins_over_a_clock_set_back),
		with_folder(a_garbage_file_is_survived),
		with_folder(an_unwritable_file_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
