/* SPDX-License-Identifier: MIT */
/* What a registry writes down for those who watch: what, when, and how much of it. */
#include "unit.h"

#include <stdio.h>

#include "os/clock.h"
#include "peer.h"

static struct session *watcher;
static gpushare_SubscribeReply page;
static pb_size_t read_up_to; /* of that */
static notice told;

/* The next that waits, in `told`; false: none. */
static bool next(void)
{
	if (read_up_to == page.notices_count) {
		memset(&page, 0, sizeof(page));
		read_up_to = 0;
		if (!watcher->watcher || !events_take(watcher->watcher, &page))
			return false;
	}
	told = page.notices[read_up_to++];
	assert_true(told.registry == peer_registry->started_unix_ns && told.unix_ns);
	return true;
}

static void expect(enum gpushare_notice_kind kind, const char *name, int32_t pid)
{
	assert_true(next());
	assert_string_equal(gpushare_notice_text(told.kind), gpushare_notice_text(kind));
	assert_string_equal(told.buffer.name, name);
	assert_int_equal(told.pid, pid);
	if (told.buffer.backing == GPUSHARE_BACKING_IPC)
		assert_int_equal(told.buffer.address, 0);
}

#define EXPECT(kind, name, pid) expect(GPUSHARE_NOTICE_##kind, name, pid)

static bool enter(struct session *session)
{
	return events_enter(peer_registry, session, &peer_answer) == GPUSHARE_OK;
}

static int set_up(void **state)
{
	int result = peer_set_up(state);

	memset(&page, 0, sizeof(page));
	read_up_to = 0;
	if (result)
		return result;
	watcher = peer_new(77, 700, "watcher");
	return !enter(watcher) || !next();
}

static void nothing_is_written_down_for_nobody(void **state)
{
	struct session *owner = peer_new(1, 100, "owner");
	uint64_t generation;

	(void)state;
	events_leave(peer_registry, watcher);
	generation = peer_share(owner, "w");
	assert_false(next());
	assert_int_equal(peer_withdraw(owner, "w", generation), GPUSHARE_OK);
	assert_true(enter(watcher));
	assert_true(next());
	assert_true(!told.kind && !told.has_buffer && told.serial == 2);
	peer_share(owner, "w");
	EXPECT(SHARE, "w", 100);
	assert_int_equal(told.serial, 3); /* a greeting has no number of its own */
	assert_false(next());
}

static void an_ipc_buffers_life(void **state)
{
	struct session *owner = peer_new(1, 100, "owner"), *other = peer_new(2, 200, "other");
	uint64_t generation = peer_share(owner, "w");

	(void)state;
	EXPECT(SHARE, "w", 100);
	assert_int_equal(told.buffer.generation, generation);
	assert_int_equal(peer_attach(other, "w"), GPUSHARE_OK);
	EXPECT(ATTACH, "w", 200);
	assert_int_equal(told.buffer.attachers, 1);
	assert_int_equal(peer_detach(other, "w", generation), GPUSHARE_OK);
	EXPECT(DETACH, "w", 200);
	assert_int_equal(told.buffer.attachers, 0);
	assert_int_equal(peer_attach(other, "w"), GPUSHARE_OK);
	EXPECT(ATTACH, "w", 200);
	assert_int_equal(peer_withdraw(owner, "w", generation), GPUSHARE_OK);
	EXPECT(WITHDRAW, "w", 100);
	assert_int_equal(peer_detach(other, "w", generation), GPUSHARE_OK);
	EXPECT(DETACH, "w", 200); /* of what is not here any more */
	assert_true(told.buffer.generation == generation && !told.buffer.size);
	assert_int_equal(told.serial, 6);
	assert_int_equal(peer_lookup(other, "w", 0), GPUSHARE_E_NOT_FOUND);
	assert_false(next());
}

static void an_owner_that_ends(void **state)
{
	struct session *owner = peer_new(1, 100, "owner"), *other = peer_new(2, 200, "other");

	(void)state;
	peer_share(owner, "mine");
	peer_share(other, "w");
	EXPECT(SHARE, "mine", 100);
	EXPECT(SHARE, "w", 200);
	assert_int_equal(peer_attach(owner, "w"), GPUSHARE_OK);
	EXPECT(ATTACH, "w", 100);
	registry_disconnect(peer_registry, owner);
	EXPECT(OWNER_GONE, "mine", 100);
	EXPECT(DETACH, "w", 100);
	assert_false(next());
}

/* It takes all connections along, and no process with them. */
static void a_registry_that_leaves_tells_nothing(void **state)
{
	struct session *owner = peer_new(1, 100, "owner");

	(void)state;
	peer_share(owner, "w");
	EXPECT(SHARE, "w", 100);
	peer_registry->leaving = true;
	registry_disconnect(peer_registry, owner);
	assert_false(next());
}

static void an_unlink_is_told_with_who_did_it(void **state)
{
	struct session *owner = peer_new(1, 100, "owner"), *other = peer_new(2, 200, "other");
	uint64_t generation = peer_share(owner, "w");

	(void)state;
	EXPECT(SHARE, "w", 100);
	assert_int_equal(peer_withdraw(other, "w", 0), GPUSHARE_OK);
	EXPECT(UNLINK, "w", 200);
	/* Its owner frees what has no name any more. */
	assert_int_equal(peer_withdraw(owner, "w", generation), GPUSHARE_OK);
	EXPECT(REMOVE, "w", 100);
	assert_false(next());
}

static void limbo_and_its_end(void **state)
{
	struct session *owner = peer_new(1, 100, "owner"), *other = peer_new(2, 200, "other");
	request withdraw = {.which_verb = gpushare_Request_withdraw_tag};
	request ask = {.which_verb = gpushare_Request_limbo_tag};
	uint64_t generation = peer_share(owner, "w");

	(void)state;
	EXPECT(SHARE, "w", 100);
	assert_int_equal(peer_attach(other, "w"), GPUSHARE_OK);
	EXPECT(ATTACH, "w", 200);
	strcpy(withdraw.verb.withdraw.name, "w");
	withdraw.verb.withdraw.generation = generation;
	withdraw.verb.withdraw.limbo = true;
	assert_int_equal(peer_ask(owner, &withdraw), GPUSHARE_OK);
	EXPECT(LIMBO, "w", 100);
	assert_true(told.buffer.in_limbo && told.buffer.attachers == 1);
	assert_int_equal(peer_detach(other, "w", generation), GPUSHARE_OK);
	EXPECT(DETACH, "w", 200);
	assert_true(told.buffer.in_limbo && !told.buffer.attachers);
	ask.verb.limbo.generations_count = 1;
	ask.verb.limbo.generations[0] = generation;
	assert_int_equal(peer_ask(owner, &ask), GPUSHARE_OK);
	EXPECT(REMOVE, "w", 100);
	assert_false(next());
}

static struct entry *kept(struct session *owner, const char *name, uint32_t ttl_s)
{
	record info = peer_share_of(name).verb.share.buffer;
	uint8_t handle[GPUSHARE_HANDLE_SIZE] = {0};

	info.backing = GPUSHARE_BACKING_VMM;
	info.flags = GPUSHARE_FLAG_KEEP;
	info.ttl_s = ttl_s;
	return buffer_add(&peer_registry->state, owner, &info, handle, 0);
}

static void what_is_kept(void **state)
{
	struct session *owner = peer_new(1, 100, "owner"), *other = peer_new(2, 200, "other");
	struct entry *entry = kept(owner, "k", 5);
	uint64_t generation = entry->info.generation;
	record again;

	(void)state;
	entry_tell(entry, &again);
	EXPECT(SHARE, "k", 100);
	registry_disconnect(peer_registry, owner);
	EXPECT(OWNER_GONE, "k", 100);
	assert_true(told.buffer.owner_gone && told.buffer.ttl_left_s == 5);
	buffer_adopt(&peer_registry->state, entry, other, &again);
	EXPECT(SHARE, "k", 200);
	assert_true(told.buffer.generation == generation && !told.buffer.owner_gone);
	assert_int_equal(peer_withdraw(other, "k", generation), GPUSHARE_OK); /* a free */
	EXPECT(OWNER_GONE, "k", 200);
	assert_true(buffer_replace(&peer_registry->state, entry, other, &again, entry->handle));
	EXPECT(REMOVE, "k", 200);
	assert_int_equal(told.buffer.generation, generation);
	EXPECT(SHARE, "k", 200);
	assert_true(told.buffer.generation > generation);
	registry_disconnect(peer_registry, other);
	EXPECT(OWNER_GONE, "k", 200);
	registry_expire(peer_registry, clock_ns() + 6 * NS_PER_S);
	EXPECT(EXPIRE, "k", 0);
	assert_false(next());
}

static void what_is_lost(void **state)
{
	struct session *owner = peer_new(1, 100, "owner");
	struct entry *entry = kept(owner, "k", 0);

	(void)state;
	EXPECT(SHARE, "k", 100);
	entry->info.missing = true;
	registry_disconnect(peer_registry, owner);
	EXPECT(OWNER_GONE, "k", 100);
	EXPECT(REMOVE, "k", 0);
	assert_false(next());
}

/* By a resyncing: counts as they are from then on. */
static void a_resyncing_is_told_where_it_changes_something(void **state)
{
	struct session *owner = peer_new(1, 100, "owner"), *other = peer_new(2, 200, "other");
	request resync = {.which_verb = gpushare_Request_resync_tag};
	gpushare_Hold *hold = &resync.verb.resync.attached[0];

	(void)state;
	strcpy(hold->name, "w");
	hold->generation = peer_share(owner, "w");
	hold->count = 2;
	resync.verb.resync.attached_count = 1;
	EXPECT(SHARE, "w", 100);
	assert_int_equal(peer_ask(other, &resync), GPUSHARE_OK);
	EXPECT(ATTACH, "w", 200);
	assert_int_equal(told.buffer.attachers, 2);
	assert_int_equal(peer_ask(other, &resync), GPUSHARE_OK);
	assert_false(next());
	hold->count = 1;
	assert_int_equal(peer_ask(other, &resync), GPUSHARE_OK);
	EXPECT(DETACH, "w", 200);
	resync = (request){.which_verb = gpushare_Request_resync_tag};
	resync.verb.resync.last = true;
	assert_int_equal(peer_ask(owner, &resync), GPUSHARE_OK);
	EXPECT(WITHDRAW, "w", 100); /* not told of any more */
	assert_false(next());
}

static void of_too_many_the_oldest_go(void **state)
{
	struct session *owner = peer_new(1, 100, "owner");
	char name[16];

	(void)state;
	for (int i = 0; i < LIMIT_EVENTS + 10; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		peer_share(owner, name);
	}
	for (int i = 10; i < LIMIT_EVENTS + 10; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		EXPECT(SHARE, name, 100);
		assert_int_equal(told.serial, i + 1);
	}
	assert_false(next());
	peer_share(owner, "more");
	EXPECT(SHARE, "more", 100);
}

static void so_many_watch_and_no_more(void **state)
{
	struct session *second = peer_new(1, 100, "a"), *third = peer_new(2, 200, "b");

	(void)state;
	peer_registry->limits.watchers = 2;
	assert_true(enter(second));
	assert_false(enter(third));
	peer_assert_sentence("watchers in registry.conf");
	events_leave(peer_registry, third);
	events_leave(peer_registry, second);
	assert_true(enter(third));
}

/* And leaves no gap. */
static void what_one_may_not_see_is_not_told(void **state)
{
	struct session *owner = peer_new(1, 100, "owner");

	(void)state;
	watcher->who.uid = 2000;
	peer_share(owner, "w");
	watcher->who.uid = 0;
	peer_share(owner, "v");
	EXPECT(SHARE, "v", 100);
	assert_int_equal(told.serial, 1);
	assert_false(next());
}

static int64_t elapsed[8];
static int ticks;

static void on_tick(struct registry *registry, int64_t elapsed_ns)
{
	elapsed[ticks++] = elapsed_ns;
	events_published(registry, store_find(&registry->store, "w"), 1000, 250);
}

static void publications_are_asked_for_once_a_second(void **state)
{
	const int64_t begin = 1000 * NS_PER_S;

	(void)state;
	peer_share(peer_new(1, 100, "owner"), "w");
	EXPECT(SHARE, "w", 100);
	peer_registry->events.tick = NULL;
	assert_true(events_due(peer_registry, begin) == INT64_MAX);
	peer_registry->events.tick = on_tick;
	assert_true(events_due(peer_registry, begin) == begin + NS_PER_S);
	EXPECT(PUBLISH, "w", 100);
	assert_true(told.published == 1000 && told.rate == 250 && told.buffer.size == 100);
	assert_true(events_due(peer_registry, begin + NS_PER_S - 1) == begin + NS_PER_S);
	assert_false(next());
	assert_true(events_due(peer_registry, begin + 2 * NS_PER_S) == begin + 3 * NS_PER_S);
	EXPECT(PUBLISH, "w", 100);
	events_leave(peer_registry, watcher);
	assert_true(events_due(peer_registry, begin + 9 * NS_PER_S) == INT64_MAX);
	assert_true(enter(watcher));
	assert_true(events_due(peer_registry, begin + 10 * NS_PER_S) == begin + 11 * NS_PER_S);
	assert_int_equal(ticks, 3);
	assert_true(!elapsed[0] && elapsed[1] == 2 * NS_PER_S && !elapsed[2]);
}

#define PEER(test) cmocka_unit_test_setup_teardown(test, set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    PEER(nothing_is_written_down_for_nobody),
	    PEER(an_ipc_buffers_life),
	    PEER(an_owner_that_ends),
	    PEER(a_registry_that_leaves_tells_nothing),
	    PEER(an_unlink_is_told_with_who_did_it),
	    PEER(limbo_and_its_end),
	    PEER(what_is_kept),
	    PEER(what_is_lost),
	    PEER(a_resyncing_is_told_where_it_changes_something),
	    PEER(of_too_many_the_oldest_go),
	    PEER(what_one_may_not_see_is_not_told),
	    PEER(so_many_watch_and_no_more),
	    PEER(publications_are_asked_for_once_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
