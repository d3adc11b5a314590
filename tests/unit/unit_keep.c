/* SPDX-License-Identifier: MIT */
/* Names that outlive their owners, in a registry without a socket. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/clock.h"
#include "peer.h"

#define KEEP GPUSHARE_FLAG_KEEP
#define READONLY GPUSHARE_FLAG_READONLY

static int latest; /* the descriptor of the latest share() */

/* A request that brings a fresh descriptor. */
static request fresh(const char *name, uint32_t flags)
{
	request what = peer_share_fd(name);

	latest = peer_goes;
	what.verb.share.buffer.flags = flags;
	return what;
}

static uint64_t share(struct session *session, const char *name, uint32_t flags, uint32_t ttl_s)
{
	request what = fresh(name, flags);

	what.verb.share.buffer.ttl_s = ttl_s;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.share.adopted);
	return peer_answer.body.share.generation;
}

static int adopt(struct session *session, const char *name, uint64_t size)
{
	request what = peer_share_of(name);

	what.verb.share.buffer.backing = GPUSHARE_BACKING_VMM;
	what.verb.share.buffer.flags = KEEP | READONLY;
	what.verb.share.buffer.size = size;
	what.verb.share.adopt = true;
	memset(what.verb.share.handle, 0, GPUSHARE_HANDLE_SIZE);
	return peer_ask(session, &what);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static const record *seen(struct session *session, const char *name)
{
	assert_int_equal(peer_lookup(session, name, 0), GPUSHARE_OK);
	return &peer_answer.body.lookup.buffer;
}

static void end(struct session *session)
{
	assert_null(registry_disconnect(peer_registry, session));
}

static void it_stays_when_the_owner_goes(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *other = peer_new(2, 12, "other");
	uint64_t generation = share(owner, "x", KEEP, 0);
	int fd = latest, plain;

	(void)state;
	share(owner, "y", READONLY, 0);
	plain = latest;
	assert_false(seen(other, "x")->owner_gone);
	end(owner);
	assert_true(is_open(fd));
	assert_true(peer_is_closed(plain));
	assert_int_equal(peer_lookup(other, "y", 0), GPUSHARE_E_NOT_FOUND);
	assert_true(seen(other, "x")->owner_gone);
	assert_int_equal(seen(other, "x")->generation, generation);
	assert_int_equal(seen(other, "x")->owner_pid, 11);
	assert_string_equal(seen(other, "x")->owner_command, "owner");
	assert_int_equal(seen(other, "x")->ttl_left_s, 0);
	assert_int_equal(registry_expire(peer_registry, INT64_MAX - 1), INT64_MAX);
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	assert_false(peer_answer.body.attach.own);
	assert_int_equal(peer_answer.body.attach.buffer.address, 0x7f0000001000);
	assert_int_equal(peer_came, fd);
	assert_int_equal(seen(other, "x")->attachers, 1);
	end(other);
	other = peer_new(3, 13, "third");
	assert_int_equal(seen(other, "x")->attachers, 0);
	assert_int_equal(peer_withdraw(other, "x", 0), GPUSHARE_OK);
	assert_true(peer_is_closed(fd));
	assert_null(peer_registry->kept.root);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 0);
}

static void it_stays_when_the_owner_frees_it(void **state)
{
	struct session *owner = peer_new(1, 11, "owner");
	uint64_t generation = share(owner, "x", KEEP | READONLY, 0);

	(void)state;
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK);
	assert_true(peer_answer.body.attach.own);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_OK);
	assert_true(seen(owner, "x")->owner_gone);
	/* Whoever let go of it is a reader like any other. */
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK);
	assert_false(peer_answer.body.attach.own);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_E_DENIED);
	end(owner);
	assert_non_null(peer_registry->kept.root);
}

static void a_ttl_runs_from_the_owners_end(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *other = peer_new(2, 12, "other");
	int64_t now = clock_ns(), next;
	int fd;

	(void)state;
	peer_registry->now_ns = now;
	share(owner, "long", KEEP, 100);
	share(owner, "short", KEEP, 10);
	fd = latest;
	assert_int_equal(registry_expire(peer_registry, now + 1000 * NS_PER_S), INT64_MAX);
	assert_int_equal(seen(other, "short")->ttl_left_s, 0);
	end(owner);
	assert_in_range(seen(other, "short")->ttl_left_s, 9, 10);
	next = registry_expire(peer_registry, now);
	assert_in_range(next, now + 10 * NS_PER_S, clock_ns() + 10 * NS_PER_S);
	assert_in_range(registry_expire(peer_registry, next), next + 89 * NS_PER_S,
			next + 91 * NS_PER_S);
	assert_true(peer_is_closed(fd));
	assert_int_equal(peer_lookup(other, "short", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("ttl");
	peer_assert_sentence("pid 11 (owner)");
	assert_int_equal(registry_expire(peer_registry, next + 91 * NS_PER_S), INT64_MAX);
	assert_int_equal(peer_registry->store.count, 0);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 0);
}

static void a_new_share_replaces_it(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *other = peer_new(2, 12, "other"), *next;
	uint64_t first = share(owner, "x", KEEP, 5), second;
	int fd = latest;
	request what;

	(void)state;
	assert_int_equal(peer_attach(other, "x"), GPUSHARE_OK);
	next = peer_new(3, 13, "next");
	what = fresh("x", KEEP);
	assert_int_equal(peer_ask(next, &what), GPUSHARE_E_EXISTS);
	peer_assert_sentence("pid 11 (owner)");
	assert_true(peer_is_closed(latest));
	end(owner);
	second = share(next, "x", KEEP, 0);
	assert_true(second > first);
	assert_int_equal(seen(other, "x")->attachers, 0);
	assert_false(seen(other, "x")->owner_gone);
	assert_int_equal(seen(other, "x")->owner_pid, 13);
	assert_int_equal(registry_expire(peer_registry, INT64_MAX - 1), INT64_MAX);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 128);
	/* The old generation's attacher gives it back without harm to the new one. */
	assert_int_equal(peer_detach(other, "x", first), GPUSHARE_OK);
	assert_int_equal(seen(other, "x")->attachers, 0);
	end(other);
	assert_true(peer_is_closed(fd));
	/* An ordinary buffer replaces it as well, and is not kept. */
	end(next);
	next = peer_new(4, 14, "plain");
	peer_share(next, "x");
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 0);
	end(next);
	assert_int_equal(peer_registry->store.count, 0);
}

static void it_is_adopted(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *next = peer_new(2, 12, "next");
	uint64_t generation = share(owner, "x", KEEP, 5);
	int fd = latest;
	request what;

	(void)state;
	assert_int_equal(adopt(next, "x", 100), GPUSHARE_E_EXISTS);
	assert_int_equal(adopt(next, "nothing", 100), GPUSHARE_E_NOT_FOUND);
	end(owner);
	assert_int_equal(adopt(next, "x", 99), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("100 bytes, not 99");
	assert_int_equal(adopt(next, "x", 100), GPUSHARE_OK);
	assert_true(peer_answer.body.share.adopted && peer_answer.body.share.has_buffer);
	assert_int_equal(peer_answer.body.share.generation, generation);
	assert_int_equal(peer_answer.body.share.buffer.base_offset, 28);
	assert_int_equal(peer_answer.body.share.buffer.address, 0x7f0000001000);
	assert_int_equal(peer_came, fd);
	assert_false(seen(next, "x")->owner_gone);
	assert_int_equal(seen(next, "x")->owner_pid, 12);
	assert_int_equal(seen(next, "x")->flags, KEEP | READONLY);
	assert_int_equal(seen(next, "x")->ttl_s, 0);
	assert_int_equal(registry_expire(peer_registry, INT64_MAX - 1), INT64_MAX);
	end(next);
	/* With a descriptor of its own, which is not needed. */
	next = peer_new(3, 13, "third");
	what = fresh("x", KEEP);
	what.verb.share.adopt = true;
	assert_int_equal(peer_ask(next, &what), GPUSHARE_OK);
	assert_true(peer_answer.body.share.adopted);
	assert_true(peer_is_closed(latest));
	assert_true(is_open(fd));
	end(next);
	/* Which is needed where what stands there is another kind. */
	next = peer_new(4, 14, "fourth");
	what = fresh("x", KEEP);
	what.verb.share.adopt = true;
	what.verb.share.buffer.size = 90;
	assert_int_equal(peer_ask(next, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.share.adopted);
	assert_true(peer_answer.body.share.generation > generation);
	assert_true(peer_is_closed(fd));
}

static void a_quota_is_answered(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *next;
	request what;

	(void)state;
	peer_registry->limits.kept_bytes = 300;
	share(owner, "a", KEEP, 0);
	share(owner, "b", KEEP, 0);
	what = fresh("c", KEEP);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_LIMIT);
	peer_assert_sentence("128 bytes more");
	peer_assert_sentence("256 of 300");
	peer_assert_sentence("gpushare rm");
	assert_true(peer_is_closed(latest));
	share(owner, "c", READONLY, 0); /* what isn't kept doesn't count */
	end(owner);
	next = peer_new(2, 12, "next");
	what = fresh("d", KEEP);
	what.verb.share.buffer.base_size = UINT64_MAX;
	assert_int_equal(peer_ask(next, &what), GPUSHARE_E_LIMIT);
	what = fresh("a", KEEP);
	what.verb.share.buffer.base_size = 173;
	assert_int_equal(peer_ask(next, &what), GPUSHARE_E_LIMIT);
	assert_true(seen(next, "a")->owner_gone); /* refused: what was there stays */
	what = fresh("a", KEEP);
	what.verb.share.buffer.base_size = 172;
	assert_int_equal(peer_ask(next, &what), GPUSHARE_OK);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 300);
	assert_int_equal(peer_withdraw(next, "b", 0), GPUSHARE_OK);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 172);
}

static void a_bad_wish_is_refused(void **state)
{
	struct session *owner = peer_new(1, 11, "owner");
	request what;

	(void)state;
	what = fresh("x", 8);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_NOT_SUPPORTED);
	what = fresh("x", READONLY);
	what.verb.share.buffer.ttl_s = 1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("ttl");
	what = fresh("x", READONLY);
	what.verb.share.adopt = true;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("adopt");
	what = fresh("x", KEEP);
	close(peer_goes);
	peer_goes = -1;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("without its file descriptor");
	assert_int_equal(peer_registry->store.count, 0);
	assert_int_equal(peer_registry->users.held[LIMIT_kept_bytes], 0);
}

static void another_users_is_left_alone(void **state)
{
	struct session *owner = peer_new(1, 11, "owner"), *next;
	request what;

	(void)state;
	share(owner, "x", KEEP, 0);
	end(owner);
	next = peer_new(2, 12, "next");
	next->peer.uid = next->who.uid = 2000;
	what = fresh("x", KEEP);
	assert_int_equal(peer_ask(next, &what), GPUSHARE_E_EXISTS);
	peer_assert_sentence("taken by another user");
	assert_int_equal(adopt(next, "x", 100), GPUSHARE_E_EXISTS);
	assert_int_equal(peer_withdraw(next, "x", 0), GPUSHARE_E_NOT_FOUND);
	store_find(&peer_registry->store, "x")->info.mode = 0604;
	assert_int_equal(adopt(next, "x", 100), GPUSHARE_E_EXISTS);
	peer_assert_sentence("kept for uid 1000");
	assert_int_equal(peer_withdraw(next, "x", 0), GPUSHARE_E_DENIED);
	assert_true(seen(next, "x")->owner_gone);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(it_stays_when_the_owner_goes),
	    TEST(it_stays_when_the_owner_frees_it),
	    TEST(a_ttl_runs_from_the_owners_end),
	    TEST(a_new_share_replaces_it),
	    TEST(it_is_adopted),
	    TEST(a_quota_is_answered),
	    TEST(a_bad_wish_is_refused),
	    TEST(another_users_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
