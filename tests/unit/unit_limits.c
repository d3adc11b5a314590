/* SPDX-License-Identifier: MIT */
/* Limits of each user and of all: each is answered by a sentence that names its key, and counted; what
 * one has used up is another's no less. */
#include "unit.h"

#include <unistd.h>

#include "configured.h"
#include "peer.h"
#include "quota.h"

static struct session *user_new(uint32_t id, uint32_t uid)
{
	struct process process = {.pid = (int32_t)id, .uid = uid, .started = id};
	struct session *session = registry_connect(peer_registry, id, &process);

	assert_non_null(session);
	session->greeted = true;
	return session;
}

static uint64_t reached(const char *key)
{
	char each[LIMIT_KEY_MAX + 1];

	for (unsigned int i = 0; i < COUNTS_LIMITS; i++) {
		limit_key(i, each);
		if (!strcmp(each, key))
			return peer_registry->counts.limits[i];
	}
	fail_msg("no limit is called %s", key);
	return 0;
}

static void assert_limited(int status, const char *key)
{
	assert_int_equal(status, GPUSHARE_E_LIMIT);
	peer_assert_sentence(key);
	assert_int_equal(reached(key), 1);
}

static void names(void **state)
{
	struct session *one = user_new(1, 1), *other = user_new(2, 2);
	request what = peer_share_of("c");

	(void)state;
	peer_registry->limits.of_user[LIMIT_names] = 2;
	peer_registry->limits.names = 3;
	peer_share(one, "a");
	peer_share(one, "b");
	assert_limited(peer_ask(one, &what), "user_names");
	peer_assert_sentence("2 names are shared");
	peer_assert_sentence("of one user");
	peer_share(other, "c");
	what = peer_share_of("d");
	assert_limited(peer_ask(other, &what), "names");
	assert_int_equal(reached("user_names"), 1);
	registry_disconnect(peer_registry, one);
	peer_share(other, "d");
	assert_int_equal(peer_registry->users.held[LIMIT_names], 2);
	registry_disconnect(peer_registry, other);
	assert_int_equal(peer_registry->users.held[LIMIT_names], 0);
}

static void kept_bytes(void **state)
{
	struct session *one = user_new(1, 1), *other = user_new(2, 2);
	const struct user *user = one->user;
	request what = peer_share_fd("c");

	(void)state;
	peer_registry->limits.of_user[LIMIT_kept_bytes] = 127;
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	assert_limited(peer_ask(one, &what), "user_kept_bytes");
	peer_assert_sentence("128 bytes more, where 0 of 127 are kept");
	assert_int_equal(user->held[LIMIT_kept_bytes], 0);
	peer_goes = dup(0);
	peer_registry->limits.of_user[LIMIT_kept_bytes] = 128;
	assert_int_equal(peer_ask(one, &what), GPUSHARE_OK);
	assert_int_equal(user->held[LIMIT_kept_bytes], 128);
	registry_disconnect(peer_registry, one); /* what is kept counts on */
	assert_int_equal(user->held[LIMIT_kept_bytes], 128);
	assert_int_equal(user->held[LIMIT_names], 1);
	assert_int_equal(other->user->held[LIMIT_kept_bytes], 0);
}

/* For everybody. */
static uint64_t share_open(struct session *session, const char *name)
{
	request what = peer_share_of(name);

	what.verb.share.mode = 0666;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.share.generation;
}

static void attachments(void **state)
{
	struct session *one = user_new(1, 1), *again = user_new(2, 1), *other = user_new(3, 2);

	(void)state;
	peer_registry->limits.of_user[LIMIT_attachments] = 3;
	share_open(other, "a");
	assert_int_equal(peer_attach(one, "a"), GPUSHARE_OK);
	assert_int_equal(peer_attach(one, "a"), GPUSHARE_OK);
	assert_int_equal(peer_attach(again, "a"), GPUSHARE_OK);
	assert_limited(peer_attach(one, "a"), "user_attachments");
	assert_int_equal(peer_attach(other, "a"), GPUSHARE_OK);
	registry_disconnect(peer_registry, again);
	assert_int_equal(peer_attach(one, "a"), GPUSHARE_OK);
	registry_disconnect(peer_registry, one);
	assert_int_equal(peer_registry->users.held[LIMIT_attachments], 1);
}

static void connections(void **state)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};
	struct session *one = user_new(1, 1), *again = user_new(2, 1), *other = user_new(3, 2);

	(void)state;
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	peer_registry->limits.of_user[LIMIT_connections] = 1;
	assert_limited(peer_ask(again, &hello), "user_connections");
	assert_int_equal(peer_ask(other, &hello), GPUSHARE_OK);
	registry_disconnect(peer_registry, again);
	assert_int_equal(peer_ask(one, &hello), GPUSHARE_OK);
}

static void waiters(void **state)
{
	struct session *one = user_new(1, 1), *other = user_new(2, 2);
	request wait = {.which_verb = gpushare_Request_lookup_tag};
	struct waiter waiter = {.session = one, .ask = &wait};

	(void)state;
	strcpy(wait.verb.lookup.name, "zz");
	wait.verb.lookup.wait_ms = 10;
	peer_registry->limits.of_user[LIMIT_waiters] = 1;
	registry_park(peer_registry, &waiter);
	assert_limited(peer_lookup(one, "zz", 10), "user_waiters");
	assert_int_equal(handle_request(peer_registry, other, &wait, &peer_answer), HANDLE_WAIT);
	registry_unpark(peer_registry, &waiter);
	assert_int_equal(handle_request(peer_registry, one, &wait, &peer_answer), HANDLE_WAIT);
}

static void watchers(void **state)
{
	static const request subscribe = {.which_verb = gpushare_Request_subscribe_tag};
	struct session *one = user_new(1, 1), *again = user_new(2, 1), *other = user_new(3, 2);

	(void)state;
	peer_registry->limits.of_user[LIMIT_watchers] = 1;
	assert_int_equal(peer_ask(one, &subscribe), GPUSHARE_OK);
	assert_limited(peer_ask(again, &subscribe), "user_watchers");
	assert_int_equal(peer_ask(other, &subscribe), GPUSHARE_OK);
	registry_disconnect(peer_registry, one);
	assert_int_equal(peer_ask(again, &subscribe), GPUSHARE_OK);
}

static int tag(struct session *session, const char *name, const char *key, const char *value)
{
	request what = {.which_verb = gpushare_Request_tag_tag};

	strcpy(what.verb.tag.name, name);
	what.verb.tag.tags_count = 1;
	strcpy(what.verb.tag.tags[0].key, key);
	strcpy(what.verb.tag.tags[0].value, value);
	return peer_ask(session, &what);
}

static void tags(void **state)
{
	struct session *one = user_new(1, 1), *other = user_new(2, 2);
	request what = peer_share_of("c");

	(void)state;
	peer_registry->limits.of_user[LIMIT_tags] = 2;
	peer_share(one, "a");
	peer_share(one, "b");
	assert_int_equal(tag(one, "a", "k", "1"), GPUSHARE_OK);
	assert_int_equal(tag(one, "b", "k", "1"), GPUSHARE_OK);
	assert_limited(tag(one, "b", "l", "1"), "user_tags");
	assert_int_equal(tag(one, "b", "k", "2"), GPUSHARE_OK); /* no more than before */
	what.verb.share.buffer.tags_count = 1;
	strcpy(what.verb.share.buffer.tags[0].key, "k");
	strcpy(what.verb.share.buffer.tags[0].value, "v");
	assert_int_equal(peer_ask(one, &what), GPUSHARE_E_LIMIT);
	assert_int_equal(peer_ask(other, &what), GPUSHARE_OK);
	assert_int_equal(tag(one, "b", "k", ""), GPUSHARE_OK);
	assert_int_equal(tag(one, "a", "l", "1"), GPUSHARE_OK);
	registry_disconnect(peer_registry, one);
	assert_int_equal(peer_registry->users.held[LIMIT_tags], 1);
}

static void limbo(void **state)
{
	struct session *one = user_new(1, 1), *other = user_new(2, 2);
	uint64_t a = share_open(one, "a"), b = share_open(one, "b");
	request leave = {.which_verb = gpushare_Request_withdraw_tag};

	(void)state;
	peer_registry->limits.of_user[LIMIT_limbo] = 1;
	assert_int_equal(peer_attach(other, "a"), GPUSHARE_OK);
	assert_int_equal(peer_attach(other, "b"), GPUSHARE_OK);
	leave.verb.withdraw.limbo = true;
	leave.verb.withdraw.generation = a;
	strcpy(leave.verb.withdraw.name, "a");
	assert_int_equal(peer_ask(one, &leave), GPUSHARE_OK);
	assert_true(peer_answer.body.withdraw.limbo);
	assert_int_equal(one->user->held[LIMIT_names], 1);
	leave.verb.withdraw.generation = b;
	strcpy(leave.verb.withdraw.name, "b");
	assert_int_equal(peer_ask(one, &leave), GPUSHARE_OK);
	assert_false(peer_answer.body.withdraw.limbo); /* there is no room to hold it */
	assert_int_equal(reached("user_limbo"), 1);
	assert_int_equal(one->user->held[LIMIT_names], 0);
	registry_disconnect(peer_registry, one);
	assert_int_equal(peer_registry->users.held[LIMIT_limbo], 0);
}

static int connect_to_small(void **state)
{
	(void)state;
	configured_start("user_connections = 3\nuser_waiters = 2\nmessage_bytes = 8Ki\n"
			 "user_names = 2\nuser_watchers = 1\n");
	return 0;
}

/* Over the wire: a message that is too long is answered, and the connection stays. */
static void a_message_is_too_long(void **state)
{
	static uint8_t body[8193];
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	int fd = raw_connect(&raw_here);

	(void)state;
	sp_header(header, 7, sizeof(body));
	assert_true(raw_write(fd, header, sizeof(header)));
	assert_true(raw_write(fd, body, sizeof(body)));
	assert_true(raw_receive(fd, 7, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_LIMIT);
	raw_assert_sentence("8193 bytes, where 8192 are all");
	raw_assert_sentence("message_bytes");
	assert_int_equal(configured_limits(fd, "message_bytes"), 1);
	assert_int_equal(raw_say(fd, raw_share("a")), GPUSHARE_OK);
	assert_int_equal(raw_say(fd, raw_share("b")), GPUSHARE_OK);
	assert_int_equal(raw_say(fd, raw_share("c")), GPUSHARE_E_LIMIT);
	raw_assert_sentence("user_names");
	close(fd);
}

static void connections_are_counted_by_the_daemon(void **state)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};
	int fds[3], more;

	(void)state;
	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	for (int i = 0; i < 3; i++)
		fds[i] = raw_connect(&raw_here);
	more = raw_greet(&raw_here);
	assert_int_equal(raw_ask(more, &hello, &raw_answer), GPUSHARE_E_LIMIT);
	raw_assert_sentence("3 connections are open");
	assert_int_equal(configured_limits(fds[0], "user_connections"), 1);
	close(fds[1]);
	while (raw_ask(more, &hello, &raw_answer) != GPUSHARE_OK)
		raw_sleep_ms(5);
	close(fds[0]);
	close(fds[2]);
	close(more);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, connect_to_small, raw_tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(names),
	    TEST(kept_bytes),
	    TEST(attachments),
	    TEST(connections),
	    TEST(waiters),
	    TEST(watchers),
	    TEST(tags),
	    TEST(limbo),
	    SMALL(a_message_is_too_long),
	    SMALL(connections_are_counted_by_the_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
