/* SPDX-License-Identifier: MIT */
/* The real daemon is killed, and its clients tell the next one what they share and attach. */
#include "unit.h"

#include "configured.h"
#include "raw_peer.h"
#include "shelf.h"

#define KEEP GPUSHARE_FLAG_KEEP
#define FAR 5000000 /* distance to a generation that no buffer has had */

static int me, other; /* two client processes */

static int set_up(void **state)
{
	configured_start("attachments = 10\n");
	strcpy(shelf_directory, raw_here.directory);
	me = raw_peer(0, 0);
	other = raw_peer(0, 0);
	return 0;
}

static void come_back(int *peer, bool resumed)
{
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];

	memcpy(key, raw_hellos[*peer].session, sizeof(key));
	*peer = raw_peer_back(*peer);
	assert_int_equal(raw_answer.body.hello.resumed, resumed);
	/* A resumed session keeps its key, so that a client that lost the answer can try again. */
	assert_int_equal(!memcmp(raw_answer.body.hello.session, key, sizeof(key)), resumed);
}

static int share_again(int peer, const char *name, uint64_t generation)
{
	request what = raw_share(name);

	what.verb.share.again = generation;
	return raw_say(peer, what);
}

static uint64_t share_kept(int peer, const char *name)
{
	assert_int_equal(raw_fds_put(peer, name, KEEP), GPUSHARE_OK);
	return raw_answer.body.share.generation;
}

static int resync(int peer, request what, bool last)
{
	what.which_verb = gpushare_Request_resync_tag;
	what.verb.resync.last = last;
	return raw_say(peer, what);
}

static int resync_of(int peer, const char *name, uint64_t generation, uint32_t count)
{
	request what = {0};

	raw_tell(&what, name, generation, count);
	return resync(peer, what, true);
}

/* Expect that the registry wants `generation` alone; 0: it wants none. */
static void assert_wanted(uint64_t generation)
{
	assert_int_equal(raw_answer.body.resync.wanted_count, generation ? 1 : 0);
	if (generation)
		assert_true(raw_answer.body.resync.wanted[0] == generation);
}

static void what_is_not_told_of_goes(void **state)
{
	uint64_t x = raw_shared(me, "x"), z = raw_shared(other, "z"), w = raw_shared(other, "w");
	request told = {0}, more = {0};

	if (raw_is_emulated())
		skip();
	raw_shared(me, "y");
	share_kept(me, "kept");
	raw_attached(me, "z");
	raw_attached(me, "w");
	raw_attached(me, "w");
	raw_daemon_again(SIGKILL);
	come_back(&me, true);
	raw_tell(&told, "x", x, 0);
	assert_int_equal(resync(me, told, false), GPUSHARE_OK);
	assert_wanted(0);
	assert_int_equal(raw_stat(me).names, 5); /* nothing ends before the last part */
	assert_int_equal(raw_stat(me).attachments, 3);
	raw_shared(me, "new"); /* shared between two parts, so it stays */
	raw_attached(me, "w");
	raw_tell(&more, "w", w, 5);
	assert_int_equal(resync(me, more, true), GPUSHARE_OK);
	assert_wanted(0);
	come_back(&other, true);
	assert_int_equal(raw_seen(other, "x")->generation, x);
	assert_int_equal(raw_say(other, raw_lookup("y", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("withdrew it 0 s ago");
	assert_true(raw_seen(other, "kept")->owner_gone);
	assert_false(raw_seen(other, "new")->owner_gone);
	assert_int_equal(raw_seen(other, "z")->attachers, 0);
	assert_int_equal(raw_seen(other, "w")->attachers, 5);
	assert_int_equal(raw_say(me, raw_detach("z", z)), GPUSHARE_E_NOT_FOUND);
	/* A second resync starts from nothing. */
	assert_int_equal(resync(me, (request){0}, true), GPUSHARE_OK);
	assert_int_equal(raw_stat(me).names, 3); /* z, w, kept */
	assert_int_equal(raw_stat(me).attachments, 0);
	raw_daemon_again(SIGKILL);
	come_back(&other, true);
	assert_int_equal(raw_stat(other).names, 3);
	assert_int_equal(raw_stat(other).attachments, 0);
}

static void a_generation_is_one_names(void **state)
{
	uint64_t x = raw_shared(me, "x"), far = x + FAR;
	int next;

	assert_int_equal(share_again(me, "y", x), GPUSHARE_E_EXISTS);
	raw_assert_sentence("is another buffer, not \"y\"");
	assert_int_equal(share_again(other, "x", x), GPUSHARE_E_EXISTS); /* its owner still lives */
	assert_int_equal(share_again(me, "x", x + 1), GPUSHARE_E_EXISTS);
	assert_int_equal(share_again(me, "y", UINT64_MAX), GPUSHARE_E_INVALID);
	raw_assert_sentence("can't have had generation");
	assert_int_equal(resync_of(me, "y", UINT64_MAX, 1), GPUSHARE_E_INVALID);
	assert_int_equal(resync_of(me, "y", UINT64_MAX, 0), GPUSHARE_E_INVALID);
	/* A client that told of a generation by a wrong name is not counted as its attacher. */
	assert_int_equal(resync_of(other, "y", x, 1), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_attach("x", 0)), GPUSHARE_E_INVALID);
	raw_assert_sentence("\"y\", not \"x\"");
	assert_int_equal(raw_say(other, raw_detach("y", x)), GPUSHARE_OK);
	raw_attached(other, "x");
	assert_int_equal(resync_of(other, "y", x, 1), GPUSHARE_E_INVALID);
	assert_int_equal(raw_seen(me, "x")->attachers, 1);
	assert_int_equal(share_again(me, "y", far), GPUSHARE_OK);
	assert_int_equal(share_again(me, "z", far), GPUSHARE_E_EXISTS);
	assert_true(raw_shared(other, "w") > far);
	/* The registry gives no new buffer a generation that a client told of, although it lacks
	 * the buffer. For an attached buffer that holds after a restart, too. */
	assert_int_equal(resync_of(other, "v", far + FAR, 1), GPUSHARE_OK);
	raw_daemon_again(SIGKILL);
	come_back(&me, true);
	next = raw_peer(0, 0);
	assert_true(raw_shared(next, "v") > far + FAR);
	assert_int_equal(raw_seen(next, "v")->attachers, 0);
	assert_int_equal(resync_of(me, "u", far + 2 * FAR, 0), GPUSHARE_OK);
	assert_wanted(far + 2 * FAR);
	assert_true(raw_shared(next, "t") > far + 2 * FAR);
}

static void a_share_again_is_checked_like_any(void **state)
{
	request what = raw_fds_share("x");

	what.verb.share.buffer.flags = KEEP;
	what.verb.share.orphan = true;
	assert_int_equal(raw_fds_give(me, what), GPUSHARE_E_INVALID);
	raw_assert_sentence("without keep or its generation");
	what.verb.share.again = 1;
	what.verb.share.buffer.flags = 0;
	assert_int_equal(raw_fds_give(me, what), GPUSHARE_E_INVALID);
	raw_assert_sentence("without keep");
	what.verb.share.buffer.flags = KEEP;
	what.verb.share.adopt = true;
	assert_int_equal(raw_fds_give(me, what), GPUSHARE_E_INVALID);
	what.verb.share.adopt = what.verb.share.orphan = false;
	assert_int_equal(raw_fds_say(me, what, -1), GPUSHARE_E_INVALID);
	raw_assert_sentence("without its file descriptor");
	what.verb.share.buffer.size = what.verb.share.buffer.base_size = UINT64_MAX;
	assert_int_equal(raw_fds_give(me, what), GPUSHARE_E_LIMIT);
	raw_assert_sentence("would keep");
	what.verb.share.buffer.size = what.verb.share.buffer.base_size = 4096;
	assert_int_equal(raw_fds_give(me, what), GPUSHARE_OK);
}

static void too_many_attachments_are_refused(void **state)
{
	request told = {0}, many = {0};

	raw_tell(&told, "a", 1, 4);
	raw_tell(&told, "b", 2, 6);
	assert_int_equal(resync(me, told, false), GPUSHARE_OK);
	raw_tell(&many, "a", 1, UINT32_MAX);
	assert_int_equal(resync(me, many, false), GPUSHARE_E_LIMIT);
	assert_int_equal(raw_stat(me).attachments, 10);
	many.verb.resync.attached[0].count = 3;
	assert_int_equal(resync(me, many, true), GPUSHARE_OK);
	assert_int_equal(raw_stat(me).attachments, 9); /* 3 of a, and b's 6 of the first part */
	assert_int_equal(resync(me, (request){0}, true), GPUSHARE_OK);
	assert_int_equal(raw_stat(me).attachments, 0);
}

/* The owner's connection ended, its process did not. */
static void an_owner_takes_back_what_it_kept(void **state)
{
	uint64_t x = share_kept(me, "x");
	request wrong = raw_fds_share("x");

	memset(raw_hellos[me].session, 0, sizeof(raw_hellos[me].session));
	me = raw_peer_back(me);
	raw_await_connections(me, 2);
	assert_int_equal(resync_of(other, "x", x, 0), GPUSHARE_OK);
	assert_wanted(x);
	assert_true(raw_seen(other, "x")->owner_gone);
	assert_int_equal(resync_of(me, "x", x, 0), GPUSHARE_OK);
	assert_wanted(0);
	assert_false(raw_seen(me, "x")->owner_gone);
	wrong.verb.share.buffer.flags = KEEP;
	wrong.verb.share.again = x;
	wrong.verb.share.buffer.size--;
	assert_int_equal(raw_fds_give(me, wrong), GPUSHARE_E_INVALID);
}

/* A client that got no answer to a part starts again with `first`, and leaves out what it has
 * freed since. The registry then forgets the earlier parts. */
static void begun_anew_what_was_told_counts_no_more(void **state)
{
	uint64_t x = raw_shared(me, "x"), y = raw_shared(me, "y");
	request part = {0};

	raw_tell(&part, "x", x, 0);
	assert_int_equal(resync(me, part, false), GPUSHARE_OK);
	part = (request){0};
	part.verb.resync.first = true;
	raw_tell(&part, "y", y, 0);
	assert_int_equal(resync(me, part, true), GPUSHARE_OK);
	assert_int_equal(raw_say(me, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(me, raw_lookup("y", 0)), GPUSHARE_OK);
}

/* The owner doesn't know of the unlinking and still tells of the buffers. The registry doesn't
 * restore their names. */
static void what_is_unlinked_stays_nameless(void **state)
{
	uint64_t x = raw_shared(me, "x"), y = raw_shared(me, "y"), k = share_kept(me, "k");

	raw_attached(other, "x");
	assert_int_equal(raw_say(other, raw_withdraw("x", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_withdraw("y", 0)), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_withdraw("k", 0)), GPUSHARE_OK);
	for (int again = 0; again < 2; again++) {
		request told = {0};

		raw_daemon_again(SIGKILL);
		come_back(&me, true);
		assert_int_equal(raw_stat(me).kept_bytes, 0);
		raw_tell(&told, "x", x, 0);
		raw_tell(&told, "y", y, 0);
		raw_tell(&told, "k", k, 0);
		assert_int_equal(resync(me, told, true), GPUSHARE_OK);
		assert_wanted(0);
		assert_int_equal(raw_stat(me).names, 0);
		assert_int_equal(raw_stat(me).deferred, 0);
	}
	assert_int_equal(raw_say(me, raw_withdraw("k", k)), GPUSHARE_OK);
	assert_false(raw_is_deferred(me, "y", y));
	assert_true(raw_is_deferred(me, "x", x));
	raw_daemon_again(SIGKILL);
	come_back(&me, true);
	assert_int_equal(raw_stat(me).deferred, 1);
	assert_true(raw_shared(me, "z") > k);
	/* The nameless buffer ends with its owner. */
	raw_peer_end(me);
	raw_daemon_again(SIGKILL);
	come_back(&other, true);
	assert_int_equal(raw_stat(other).deferred, 0);
	assert_int_equal(raw_say(other, raw_detach("x", x)), GPUSHARE_OK);
}

/* One thread of the client has taken the buffer off its list and is about to withdraw it.
 * Meanwhile another thread sends a resync without it. */
static void what_was_left_out_is_freed_or_back(void **state)
{
	uint64_t x = raw_shared(me, "x"), y = raw_shared(me, "y"), z = raw_shared(me, "z");

	raw_attached(other, "x");
	raw_attached(other, "z");
	raw_daemon_again(SIGKILL);
	come_back(&me, true);
	assert_int_equal(resync_of(me, "y", y, 0), GPUSHARE_OK);
	assert_wanted(0);
	assert_int_equal(raw_say(me, raw_lookup("x", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("withdrew it");
	assert_int_equal(raw_stat(me).deferred, 0);
	for (uint64_t again = 1; again <= 2; again++) {
		assert_true(raw_is_deferred(me, "x", x));
		raw_daemon_again(SIGKILL);
		come_back(&me, true);
		assert_int_equal(raw_stat(me).deferred, 1);
	}
	/* The next resync tells of z, which the first one left out. */
	assert_int_equal(resync_of(me, "z", z, 0), GPUSHARE_OK);
	assert_wanted(z);
	assert_int_equal(share_again(me, "z", z), GPUSHARE_OK);
	assert_true(raw_seen(me, "z")->generation == z);
	assert_int_equal(raw_seen(me, "z")->attachers, 1);
	assert_int_equal(resync_of(me, "z", z, 0), GPUSHARE_OK);
	assert_wanted(0);
}

static void says_hello(int fd, const uint8_t *key, uint32_t attempt, bool resumes)
{
	request hello = raw_hello_request();

	hello.verb.hello.attempt = attempt;
	memcpy(hello.verb.hello.resume, key, GPUSHARE_SESSION_KEY_SIZE);
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.hello.resumed, resumes);
}

/* If two connections resume one session, the later attempt takes it over, in whatever order the
 * hellos arrive. The registry denies what the other one asks. */
static void who_was_given_up_takes_over_nothing(void **state)
{
	uint64_t x = raw_shared(me, "x");
	const uint8_t *key = raw_hellos[me].session;
	int early, given_up, session, late, looks;

	raw_daemon_again(SIGKILL);
	looks = raw_connect(&raw_here); /* by its answers each connects after the one before */
	early = raw_peer_beside(me);
	raw_await_connections(looks, 2);
	given_up = raw_peer_beside(me);
	raw_await_connections(looks, 3);
	session = raw_peer_beside(me);
	raw_await_connections(looks, 4);
	close(looks);
	says_hello(given_up, key, 1, true);
	says_hello(session, key, 3, true);
	assert_int_equal(raw_say(given_up, raw_share("late")), GPUSHARE_E_DENIED);
	assert_int_equal(raw_say(session, raw_lookup("late", 0)), GPUSHARE_E_NOT_FOUND);
	late = raw_peer_beside(me);
	says_hello(late, key, 2, false);
	/* Attempt 0 means none: the order of connecting decides. */
	says_hello(early, key, 0, false);
	close(early);
	close(given_up);
	close(late);
	raw_await_connections(session, 1);
	/* A session that shares something already takes over nothing, not even by its own key. */
	raw_shared(session, "y");
	says_hello(session, key, 4, false);
	assert_int_equal(raw_say(session, raw_withdraw("x", x)), GPUSHARE_OK);
	close(session);
}

/* Kill registry and keeper, so that what they kept is lost, and start the next registry. */
static void lose(void)
{
	pid_t keeper = raw_is_emulated() ? 0 : shelf_keeper();

	raw_daemon_end(SIGKILL);
	if (keeper) {
		kill(keeper, SIGKILL);
		shelf_await_end(keeper, RAW_TIMEOUT_MS);
	}
	raw_daemon_start(&raw_here, NULL);
}

/* `orphan`: an attacher brings it back. */
static int keep_again(int peer, const char *name, uint64_t generation, bool orphan)
{
	request what = raw_fds_share(name);

	what.verb.share.buffer.flags = KEEP;
	what.verb.share.again = generation;
	what.verb.share.orphan = orphan;
	return raw_fds_give(peer, what);
}

static void assert_wants_of(int peer, const char *name, uint64_t generation, bool wanted)
{
	request what = {0};

	raw_tell(&what, name, generation, 1);
	assert_int_equal(resync(peer, what, false), GPUSHARE_OK);
	assert_wanted(wanted ? generation : 0);
}

static void an_attacher_may_be_before_the_owner(void **state)
{
	uint64_t x = share_kept(me, "x");

	assert_int_equal(raw_fds_get(other, "x"), GPUSHARE_OK);
	lose();
	come_back(&other, true);
	assert_int_equal(keep_again(other, "x", x, true), GPUSHARE_OK);
	assert_false(raw_seen(other, "x")->missing);
	assert_false(raw_seen(other, "x")->owner_gone); /* the owner is alive */
	come_back(&me, true);
	assert_int_equal(resync_of(me, "x", x, 0), GPUSHARE_OK);
	assert_wanted(0);
	assert_int_equal(raw_say(me, raw_withdraw("x", x)), GPUSHARE_OK);
	assert_true(raw_seen(other, "x")->owner_gone);
}

static void what_was_removed_is_not_brought_back(void **state)
{
	uint64_t x = share_kept(me, "x"), y = share_kept(me, "y"), now;

	assert_int_equal(raw_fds_get(other, "x"), GPUSHARE_OK);
	assert_int_equal(raw_fds_get(other, "y"), GPUSHARE_OK);
	assert_int_equal(raw_say(other, raw_withdraw("x", 0)), GPUSHARE_OK);
	for (int again = 0; again < 2; again++) {
		lose();
		come_back(&other, true);
		assert_wants_of(other, "x", x, false);
		assert_int_equal(keep_again(other, "x", x, true), GPUSHARE_E_NOT_FOUND);
		assert_wants_of(other, "y", y, true);
	}
	/* nor if its name belongs to another buffer now */
	now = share_kept(other, "x");
	raw_daemon_lose();
	come_back(&me, false);
	assert_int_equal(share_again(me, "x", now), GPUSHARE_OK);
	come_back(&other, false);
	assert_wants_of(other, "x", x, false);
	assert_int_equal(keep_again(other, "x", x, true), GPUSHARE_E_EXISTS);
}

static void what_is_missing_is_replaced_not_adopted(void **state)
{
	uint64_t x = share_kept(me, "x");
	request what = raw_fds_share("x");

	assert_int_equal(raw_fds_get(other, "x"), GPUSHARE_OK);
	raw_peer_end(me);
	lose();
	me = raw_peer(0, 0);
	what.verb.share.buffer.flags = KEEP;
	what.verb.share.adopt = true;
	assert_int_equal(raw_fds_say(me, what, -1), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("nobody has brought its memory back yet");
	assert_int_equal(raw_fds_give(me, what), GPUSHARE_OK);
	assert_false(raw_answer.body.share.adopted);
	assert_true(raw_answer.body.share.generation > x);
	assert_false(raw_seen(me, "x")->missing);
	assert_int_equal(raw_seen(me, "x")->attachers, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, raw_peers_tear_down)
UNIT_MAIN(TEST(what_is_not_told_of_goes), TEST(a_generation_is_one_names),
	  TEST(a_share_again_is_checked_like_any), TEST(too_many_attachments_are_refused),
	  TEST(an_owner_takes_back_what_it_kept), TEST(begun_anew_what_was_told_counts_no_more),
	  TEST(who_was_given_up_takes_over_nothing), TEST(what_is_unlinked_stays_nameless),
	  TEST(what_was_left_out_is_freed_or_back), TEST(an_attacher_may_be_before_the_owner),
	  TEST(what_was_removed_is_not_brought_back), TEST(what_is_missing_is_replaced_not_adopted))
