/* SPDX-License-Identifier: MIT */
/* The daemon's Subscribe: which listeners get which notices, and that a waiting one can't ask
 * again. */
#include "unit.h"

#include "listener.h"
#include "raw_peer.h"

static notice told;

/* Receive the next notice into `told`. */
static bool hear(struct listener *listener, int timeout_ms)
{
	const notice *came = listener_hear(listener, timeout_ms);

	if (came)
		told = *came;
	return came;
}

static void expect(struct listener *listener, enum gpushare_notice_kind kind, const char *name)
{
	assert_true(hear(listener, RAW_TIMEOUT_MS));
	assert_string_equal(gpushare_notice_text(told.kind), gpushare_notice_text(kind));
	assert_string_equal(told.buffer.name, name);
}

#define EXPECT(listener, kind, name) expect(listener, GPUSHARE_NOTICE_##kind, name)

/* A listener that gets all notices from now on. */
static struct listener *events_connect(void)
{
	struct listener *listener = test_malloc(sizeof(*listener));

	listener_open(listener);
	told = listener->answer.body.subscribe.notices[0];
	return listener;
}

static void events_close(struct listener *listener)
{
	listener_close(listener);
	test_free(listener);
}

static void late_comers_hear_the_rest(void **state)
{
	int fd = raw_connect(&raw_here);
	struct listener *first = events_connect(), *second;

	assert_int_equal(raw_say(fd, raw_share("a")), GPUSHARE_OK);
	second = events_connect();
	assert_int_equal(told.serial, 1);
	assert_int_equal(raw_say(fd, raw_share("b")), GPUSHARE_OK);
	EXPECT(first, SHARE, "a");
	EXPECT(first, SHARE, "b");
	EXPECT(second, SHARE, "b");
	assert_int_equal(told.serial, 2);
	events_close(first);
	assert_int_equal(raw_say(fd, raw_share("c")), GPUSHARE_OK);
	EXPECT(second, SHARE, "c");
	events_close(second);
	close(fd);
}

/* A resync sends notices where it changes a buffer's attachments or withdraws it. */
static void a_resyncing_is_told_where_it_changes_something(void **state)
{
	struct listener *watcher = events_connect();
	int owner = raw_peer(0, 0), other = raw_peer(0, 0);
	request resync = {.which_verb = gpushare_Request_resync_tag};
	gpushare_Hold *hold = &resync.verb.resync.attached[0];

	assert_int_equal(raw_say(owner, raw_share("w")), GPUSHARE_OK);
	EXPECT(watcher, SHARE, "w");
	strcpy(hold->name, "w");
	hold->generation = raw_answer.body.share.generation;
	hold->count = 2;
	resync.verb.resync.attached_count = 1;
	assert_int_equal(raw_say(other, resync), GPUSHARE_OK);
	EXPECT(watcher, ATTACH, "w");
	assert_int_equal(told.pid, raw_peer_pid(other));
	assert_int_equal(told.buffer.attachers, 2);
	assert_int_equal(raw_say(other, resync), GPUSHARE_OK); /* no change, no notice */
	hold->count = 1;
	assert_int_equal(raw_say(other, resync), GPUSHARE_OK);
	EXPECT(watcher, DETACH, "w");
	resync = (request){.which_verb = gpushare_Request_resync_tag};
	resync.verb.resync.last = true;
	assert_int_equal(raw_say(owner, resync), GPUSHARE_OK);
	EXPECT(watcher, WITHDRAW, "w"); /* left out of the resync */
	assert_int_equal(told.serial, 4);
	events_close(watcher);
	raw_peers_end();
}

/* The connection serves other requests meanwhile. */
static void who_waits_is_answered_and_asks_once(void **state)
{
	request subscribe = {.which_verb = gpushare_Request_subscribe_tag};
	struct listener *watcher = events_connect();
	int fd = raw_connect(&raw_here);

	listener_ask(watcher);
	assert_int_equal(raw_say(watcher->fd, subscribe), GPUSHARE_E_INVALID);
	raw_assert_sentence("waits for notices already");
	assert_int_equal(raw_say(watcher->fd, raw_lookup("w", 0)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(fd, raw_share("w")), GPUSHARE_OK);
	assert_true(raw_receive(watcher->fd, watcher->id, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_OK);
	assert_int_equal(raw_answer.body.subscribe.notices_count, 1);
	assert_string_equal(raw_answer.body.subscribe.notices[0].buffer.name, "w");
	events_close(watcher);
	close(fd);
}

UNIT_MAIN(RAW_TEST(late_comers_hear_the_rest),
	  RAW_TEST(a_resyncing_is_told_where_it_changes_something),
	  RAW_TEST(who_waits_is_answered_and_asks_once))
