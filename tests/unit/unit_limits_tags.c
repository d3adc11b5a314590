/* SPDX-License-Identifier: MIT */
/* Tags: whoever sets them and however they come, they count as the owner's, and no more than his limit. */
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/clock.h"
#include "users.h"

#define MOST 4

static request with_tags(request what, pb_size_t count)
{
	record *info = &what.verb.share.buffer;

	info->tags_count = count;
	for (pb_size_t i = 0; i < count; i++) {
		info->tags[i].key[0] = (char)('a' + i);
		strcpy(info->tags[i].value, "v");
	}
	return what;
}

/* Memory that travels as a descriptor, and stays. */
static request kept_with(const char *name, pb_size_t tags)
{
	request what = with_tags(peer_share_fd(name), tags);

	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	return what;
}

static uint64_t tags_of(uint32_t uid)
{
	return user_of(&peer_registry->users, uid)->held[LIMIT_tags];
}

static void assert_limited(int status, uint64_t times)
{
	assert_int_equal(status, GPUSHARE_E_LIMIT);
	peer_assert_sentence("user_tags");
	assert_int_equal(peer_registry->counts.limits[LIMIT_KINDS + LIMIT_tags], times);
}

static int set_up(void **state)
{
	users_set_up(state);
	peer_registry->limits.of_user[LIMIT_tags] = MOST;
	return 0;
}

static void of_a_share(void **state)
{
	request what = with_tags(peer_share_of("a"), 3);

	(void)state;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	what = with_tags(peer_share_of("b"), 2);
	assert_limited(peer_ask(owner, &what), 1);
	what = with_tags(peer_share_of("b"), 1);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(tags_of(OWNER), MOST);
	registry_disconnect(peer_registry, owner);
	assert_int_equal(tags_of(OWNER), 0);
}

/* What comes in place of something has other tags, whose number counts. */
static void of_what_is_replaced(void **state)
{
	request what = kept_with("k", 1);
	struct session *again = user(OWNER, NULL);

	(void)state;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	what = with_tags(peer_share_of("a"), 2);
	assert_int_equal(peer_ask(again, &what), GPUSHARE_OK);
	registry_disconnect(peer_registry, owner); /* it is kept */
	what = kept_with("k", 3);
	assert_limited(peer_ask(again, &what), 1);
	assert_int_equal(tags_of(OWNER), 3);
	assert_int_equal(peer_lookup(again, "k", 0), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.lookup.buffer.tags_count, 1);
	what = kept_with("k", 2);
	assert_int_equal(peer_ask(again, &what), GPUSHARE_OK);
	assert_int_equal(tags_of(OWNER), MOST);
	assert_int_equal(peer_lookup(again, "k", 0), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.lookup.buffer.tags_count, 2);
	registry_disconnect(peer_registry, again);
	what = kept_with("k", 2);
	assert_int_equal(peer_ask(root, &what),
			 GPUSHARE_E_EXISTS); /* it is not root's to replace */
	assert_int_equal(tags_of(OWNER), 2);
}

/* A limit that was set lower since takes nothing away, and fewer are always welcome. */
static void of_more_than_there_may_be(void **state)
{
	request what = kept_with("k", 4);
	struct session *again = user(OWNER, NULL);

	(void)state;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	registry_disconnect(peer_registry, owner);
	peer_registry->limits.of_user[LIMIT_tags] = 1;
	what = kept_with("k", 3);
	assert_int_equal(peer_ask(again, &what), GPUSHARE_OK);
	assert_int_equal(tags_of(OWNER), 3);
}

static void of_what_is_adopted(void **state)
{
	request what = kept_with("k", 3);
	struct session *again = user(OWNER, NULL);

	(void)state;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	registry_disconnect(peer_registry, owner);
	what = with_tags(what, 4);
	what.verb.share.adopt = true;
	assert_int_equal(peer_ask(again, &what), GPUSHARE_OK);
	assert_true(peer_answer.body.share.adopted);
	assert_int_equal(peer_answer.body.share.buffer.tags_count, 3); /* as it is */
	assert_int_equal(tags_of(OWNER), 3);
}

/* What a client tells a registry that has lost it. */
static void of_what_is_brought_back(void **state)
{
	request what = with_tags(peer_share_of("a"), 4);

	(void)state;
	what.verb.share.again = 7;
	peer_registry->is_system = false; /* it believes that there was one */
	peer_registry->since = 1000;
	peer_registry->limits.of_user[LIMIT_tags] = 3;
	assert_limited(peer_ask(owner, &what), 1);
	assert_int_equal(tags_of(OWNER), 0);
	what = with_tags(what, 3);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(tags_of(OWNER), 3);
}

/* Root sets them, and they are the owner's. */
static void of_another_users(void **state)
{
	request what = with_tags(peer_share_of("a"), 3);

	(void)state;
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	what = with_tags(peer_share_of("r"), 4);
	assert_int_equal(peer_ask(root, &what), GPUSHARE_OK); /* root has all that it may */
	assert_int_equal(tag(root, "a"), GPUSHARE_OK);
	assert_int_equal(tags_of(OWNER), 4);
	assert_int_equal(tags_of(0), 4);
	peer_registry->limits.of_user[LIMIT_tags] = 3;
	assert_int_equal(peer_withdraw(root, "r", 0), GPUSHARE_OK);
	what = with_tags(peer_share_of("b"), 0);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_limited(tag(root, "b"), 1);
	assert_int_equal(tags_of(OWNER), 4);
}

/* Few have any, and they are what takes most room. */
static void those_without_have_no_room_for_them(void **state)
{
	const struct entry *entry;

	(void)state;
	peer_share(owner, "a");
	entry = store_find(&peer_registry->store, "a");
	assert_null(entry->tags);
	assert_true(sizeof(*entry) < 900);
	assert_int_equal(tag(owner, "a"), GPUSHARE_OK);
	assert_non_null(entry->tags);
	assert_string_equal(entry->tags[0].key, "k");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, peer_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(of_a_share),
	    TEST(of_what_is_replaced),
	    TEST(of_more_than_there_may_be),
	    TEST(of_what_is_adopted),
	    TEST(of_what_is_brought_back),
	    TEST(of_another_users),
	    TEST(those_without_have_no_room_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
