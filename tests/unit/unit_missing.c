/* SPDX-License-Identifier: MIT */
/* Buffers whose descriptor was lost with registry and keeper: an owner or attacher shares them
 * again, or they are gone. */
#include "unit.h"

#include "raw_peer.h"
#include "shelf.h"

#define NOT_YET "nobody has brought its memory back yet"
#define LOST "had it; it was lost with the registry"

/* Kill registry and keeper, then the process of `dead` (-1: none), and start the next registry. */
static void lose(int dead)
{
	pid_t keeper = raw_is_emulated() ? 0 : shelf_keeper();

	raw_daemon_end(SIGKILL);
	if (keeper) {
		kill(keeper, SIGKILL);
		shelf_await_end(keeper, RAW_TIMEOUT_MS);
	}
	if (dead >= 0)
		raw_peer_end(dead);
	raw_daemon_start(&raw_here, NULL);
}

static request kept(const char *name)
{
	request what = raw_fds_share(name);

	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	return what;
}

static uint64_t share(int own, const char *name)
{
	assert_int_equal(raw_fds_give(own, kept(name)), GPUSHARE_OK);
	return raw_answer.body.share.generation;
}

static int share_again(int own, const char *name, uint64_t generation, bool orphan)
{
	request what = kept(name);

	what.verb.share.again = generation;
	what.verb.share.orphan = orphan;
	return raw_fds_give(own, what);
}

/* Return whether the registry wants that generation from the client. `count`: its attachments;
 * 0: it is the owner. */
static bool is_wanted(int own, const char *name, uint64_t generation, uint32_t count)
{
	request what = {0};

	raw_tell(&what, name, generation, count);
	assert_int_equal(raw_say(own, what), GPUSHARE_OK);
	return raw_answer.body.resync.wanted_count == 1 &&
	       raw_answer.body.resync.wanted[0] == generation;
}

static int come_back(int peer)
{
	peer = raw_peer_back(peer);
	assert_true(raw_answer.body.hello.resumed);
	return peer;
}

static void an_attacher_may_be_before_the_owner(void **state)
{
	int owner = raw_peer(0, 0), a = raw_peer(0, 0);
	uint64_t x = share(owner, "x");

	assert_int_equal(raw_fds_get(a, "x"), GPUSHARE_OK);
	lose(-1);
	a = come_back(a);
	assert_int_equal(share_again(a, "x", x, true), GPUSHARE_OK);
	assert_false(raw_seen(a, "x")->missing);
	assert_false(raw_seen(a, "x")->owner_gone); /* the owner is alive */
	owner = come_back(owner);
	assert_false(is_wanted(owner, "x", x, 0));
	assert_int_equal(raw_say(owner, raw_withdraw("x", x)), GPUSHARE_OK);
	assert_true(raw_seen(a, "x")->owner_gone);
}

static void what_was_removed_is_not_brought_back(void **state)
{
	int owner = raw_peer(0, 0), a = raw_peer(0, 0);
	uint64_t x = share(owner, "x"), y = share(owner, "y"), now;
	request what;

	assert_int_equal(raw_fds_get(a, "x"), GPUSHARE_OK);
	assert_int_equal(raw_fds_get(a, "y"), GPUSHARE_OK);
	assert_int_equal(raw_say(a, raw_withdraw("x", 0)), GPUSHARE_OK);
	for (int again = 0; again < 3; again++) {
		lose(-1);
		a = raw_peer_back(a);
		assert_false(is_wanted(a, "x", x, 1));
		assert_int_equal(share_again(a, "x", x, true), GPUSHARE_E_NOT_FOUND);
		assert_true(is_wanted(a, "y", y, 1));
	}
	/* A buffer isn't wanted if its name now belongs to another buffer. */
	now = share(a, "x");
	raw_daemon_lose();
	owner = raw_peer_back(owner);
	what = raw_share("x");
	what.verb.share.again = now;
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	a = raw_peer_back(a);
	assert_false(is_wanted(a, "x", x, 1));
	assert_int_equal(share_again(a, "x", x, true), GPUSHARE_E_EXISTS);
}

static void what_is_missing_is_replaced_not_adopted(void **state)
{
	int owner = raw_peer(0, 0), a = raw_peer(0, 0), other;
	uint64_t x = share(owner, "x");
	request what = kept("x");

	assert_int_equal(raw_fds_get(a, "x"), GPUSHARE_OK);
	lose(owner);
	other = raw_connect(&raw_here);
	what.verb.share.adopt = true;
	assert_int_equal(raw_fds_say(other, what, -1), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence(NOT_YET);
	assert_int_equal(raw_fds_give(other, what), GPUSHARE_OK);
	assert_false(raw_answer.body.share.adopted);
	assert_true(raw_answer.body.share.generation > x);
	assert_false(raw_seen(other, "x")->missing);
	assert_int_equal(raw_seen(other, "x")->attachers, 0);
	close(other);
}

static int set_up(void **state)
{
	if (raw_set_up(state))
		return -1;
	strcpy(shelf_directory, raw_here.directory);
	return 0;
}

#define with_daemon(test) cmocka_unit_test_setup_teardown(test, set_up, raw_peers_tear_down)

UNIT_MAIN(with_daemon(an_attacher_may_be_before_the_owner),
	  with_daemon(what_was_removed_is_not_brought_back),
	  with_daemon(what_is_missing_is_replaced_not_adopted))
