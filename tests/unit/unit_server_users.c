/* SPDX-License-Identifier: MIT */
/* The real daemon with --system: what each user may see and do, and the limits of each. */
#include "unit.h"

#include "configured.h"
#include "index.h"
#include "order_page.h"
#include "raw_peer.h"

#define OWNER 41001
#define MEMBER 41002
#define OTHER 41003
#define TEAM 41500 /* a group of OWNER's and MEMBER's */

static int owner, member, other, root;

static int serve(const char *lines)
{
	static const char *const extra[] = {"--system", NULL};

	configured_start_with(lines, extra);
	owner = raw_peer(OWNER, TEAM);
	member = raw_peer(MEMBER, TEAM);
	other = raw_peer(OTHER, 0);
	root = raw_connect(&raw_here);
	return 0;
}

static int set_up(void **state)
{
	return serve("");
}

static int tear_down(void **state)
{
	raw_peers_end();
	close(root);
	return raw_tear_down(state);
}

static request share_of(const char *name, uint32_t mode, uint32_t group)
{
	request what = raw_share(name);

	what.verb.share.mode = mode;
	if (group)
		snprintf(what.verb.share.group, sizeof(what.verb.share.group), "%u", group);
	return what;
}

static uint64_t share(int peer, const char *name, uint32_t mode, uint32_t group)
{
	assert_int_equal(raw_say(peer, share_of(name, mode, group)), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.share.mode, mode ? mode : 0600);
	return raw_answer.body.share.generation;
}

/* Share memory that travels as a descriptor. */
static int share_fd(int peer, const char *name, uint32_t flags, uint32_t mode, uint32_t group)
{
	request what = raw_fds_share(name);

	what.verb.share.buffer.flags = flags;
	what.verb.share.mode = mode;
	if (group)
		snprintf(what.verb.share.group, sizeof(what.verb.share.group), "%u", group);
	return raw_fds_give(peer, what);
}

static int attach(int peer, const char *name, bool read_only)
{
	request what = raw_attach(name);
	int status;

	what.verb.attach.read_only = read_only;
	status = raw_say(peer, what);
	if (status || !raw_answer.body.attach.at_fds)
		return status;
	status = raw_fds_say(peer, what, -1);
	if (raw_fds_came >= 0)
		close(raw_fds_came);
	return status;
}

static int holders(int peer, const char *name, uint64_t generation)
{
	request what = {.which_verb = gpushare_Request_holders_tag};

	strcpy(what.verb.holders.name, name);
	what.verb.holders.generation = generation;
	return raw_say(peer, what);
}

static int lookup_of(int peer, const char *name, uint64_t generation)
{
	request what = raw_lookup(name, 0);

	what.verb.lookup.generation = generation;
	return raw_say(peer, what);
}

static int order(int peer, const char *name, uint64_t generation, uint32_t roles)
{
	int status = raw_fds_say(peer, raw_order(name, generation, roles), -1);

	if (raw_fds_came >= 0)
		close(raw_fds_came);
	return status;
}

static uint32_t attachers(int peer, const char *name)
{
	return raw_seen(peer, name)->attachers;
}

static void what_may_not_be_seen_does_not_exist(void **state)
{
	uint64_t generation = share(owner, "secret", 0, 0);

	/* Only root is told the count of requests for hidden names, so nobody else can tell a
	 * hidden name from a missing one. */
	assert_int_equal(attach(member, "none", false), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_stat(root).hidden, 0);
	assert_int_equal(raw_say(member, raw_lookup("secret", 10)), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(raw_say(member, raw_lookup("none", 10)), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(raw_stat(root).hidden, 1);
	assert_int_equal(raw_stat(member).hidden, 0);
	assert_int_equal(raw_stat(owner).hidden, 0);
	assert_int_equal(attach(member, "secret", false), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("no buffer is named \"secret\"");
	assert_int_equal(raw_say(member, raw_lookup("secret", 0)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(lookup_of(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(holders(member, "secret", 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(holders(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(member, raw_withdraw("secret", generation)), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(order(member, "secret", generation, 0), GPUSHARE_E_NOT_FOUND);
	/* the refusal of a taken name says nothing else about its owner */
	assert_int_equal(raw_say(other, raw_share("secret")), GPUSHARE_E_EXISTS);
	assert_string_equal(raw_answer.message,
			    "\"secret\" is taken by another user; choose another name");
	assert_int_equal(raw_say(root, raw_share("secret")), GPUSHARE_E_EXISTS);
	raw_assert_sentence("uid 41001");
	/* the sentences tell neither that it existed nor whether others share something */
	assert_int_equal(raw_say(owner, raw_withdraw("secret", generation)), GPUSHARE_OK);
	assert_int_equal(raw_say(member, raw_lookup("secret", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("no buffer is named");
	assert_null(strstr(raw_answer.message, "nothing is shared"));
	assert_int_equal(lookup_of(member, "secret", generation), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("no buffer is named");
	assert_int_equal(raw_say(owner, raw_lookup("secret", 0)), GPUSHARE_E_NOT_FOUND);
	raw_assert_sentence("withdrew it");
}

static void publishing_needs_the_right_to_write(void **state)
{
	uint64_t generation;

	assert_int_equal(share_fd(owner, "w", 0, 0640, TEAM), GPUSHARE_OK);
	generation = raw_answer.body.share.generation;
	assert_int_equal(attach(member, "w", true), GPUSHARE_OK);
	assert_int_equal(holders(member, "w", 0), GPUSHARE_OK);
	assert_int_equal(order(member, "w", generation, ORDER_PUBLISHES), GPUSHARE_E_DENIED);
	raw_assert_sentence("publishing needs the right to write");
	assert_int_equal(share_fd(owner, "other", 0, 0602, 0), GPUSHARE_OK);
	assert_int_equal(attach(other, "other", false), GPUSHARE_E_DENIED);
	raw_assert_sentence("may not read it");
	/* A buffer that is read-only for everybody needs only the right to read. */
	assert_int_equal(share_fd(owner, "r", GPUSHARE_FLAG_READONLY, 0644, 0), GPUSHARE_OK);
	assert_int_equal(attach(other, "r", false), GPUSHARE_OK);
	assert_true(raw_answer.body.attach.read_only);
}

/* A resync gives a client no access to a buffer that it may not see. */
static void nobody_tells_himself_into_what_is_not_his(void **state)
{
	uint64_t generation = share(owner, "w", 0, 0);
	request what = {0};

	raw_tell(&what, "w", generation, 1);
	raw_tell(&what, "none", generation + 1, 1);
	what.verb.resync.last = true;
	assert_int_equal(raw_say(other, what), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.resync.wanted_count, 0);
	assert_int_equal(attachers(owner, "w"), 0);
	assert_int_equal(raw_stat(root).attachments, 0);
	assert_int_equal(order(other, "w", generation, ORDER_CONSUMES), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_say(root, what), GPUSHARE_OK);
	assert_int_equal(attachers(owner, "w"), 1);
}

static void only_root_and_its_user_end_the_registry(void **state)
{
	const struct fds_header replace = {.version = FDS_VERSION, .verb = FDS_REPLACE};
	int fd = raw_fds_dialer(member);

	assert_int_equal(raw_fds_ask(fd, replace, NULL, 0), GPUSHARE_E_DENIED);
	close(fd);
	assert_int_equal(raw_stat(root).pid, raw_here.pid);
	fd = raw_fds_dial();
	assert_int_equal(raw_fds_ask(fd, replace, NULL, 0), GPUSHARE_OK);
	close(fd);
	assert_int_equal(raw_daemon_wait(&raw_here, RAW_TIMEOUT_MS), 0);
}

static void nobody_brings_back_what_was_anothers(void **state)
{
	uint64_t generation = share(owner, "w", 0644, 0);
	request what = share_of("w", 0, 0);

	what.verb.share.again = generation;
	assert_int_equal(raw_say(other, what), GPUSHARE_E_EXISTS);
	assert_int_equal(raw_say(owner, raw_withdraw("w", generation)), GPUSHARE_OK);
	share(owner, "later", 0, 0); /* else the generation counts as never assigned */
	assert_int_equal(raw_say(other, what), GPUSHARE_E_NOT_FOUND);
	strcpy(what.verb.share.buffer.name, "never"); /* no tombstone says whose it was */
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_NOT_FOUND);
	strcpy(what.verb.share.buffer.name, "w");
	what.verb.share.again = generation + 1000000; /* never assigned */
	assert_int_equal(raw_say(owner, what), GPUSHARE_E_NOT_FOUND);
	what.verb.share.again = generation;
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	assert_true(raw_answer.body.share.generation == generation);
	assert_int_equal(raw_say(owner, raw_withdraw("w", generation)), GPUSHARE_OK);
	assert_int_equal(raw_say(owner, raw_withdraw("later", 0)), GPUSHARE_OK);
	/* Kept memory that is older than the records has no known owner. Without its descriptor
	 * both sockets refuse it. */
	what = raw_fds_share("old");
	what.verb.share.again = 7;
	what.verb.share.orphan = true;
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	assert_int_equal(raw_say(other, what), GPUSHARE_E_INVALID);
	assert_int_equal(raw_fds_say(other, what, -1), GPUSHARE_E_INVALID);
	assert_int_equal(raw_fds_give(other, what), GPUSHARE_E_NOT_FOUND);
	strcpy(what.verb.share.buffer.name, "w");
	what.verb.share.again = generation;
	assert_int_equal(raw_fds_give(owner, what), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(raw_stat(root).names, 0);
}

/* Adopt "k" in a new process of its user. */
static void adopt(uint32_t mode, uint32_t group)
{
	request what = raw_fds_share("k");

	while (!raw_seen(root, "k")->owner_gone)
		raw_sleep_ms(1);
	what.verb.share.adopt = true;
	what.verb.share.buffer.flags = GPUSHARE_FLAG_KEEP;
	what.verb.share.mode = mode;
	if (group)
		snprintf(what.verb.share.group, sizeof(what.verb.share.group), "%u", group);
	owner = raw_peer(OWNER, TEAM);
	assert_int_equal(raw_fds_say(owner, what, -1), GPUSHARE_OK);
	assert_true(raw_answer.body.share.adopted);
	close(raw_fds_came);
}

static void who_adopts_a_buffer_may_give_it_other_rights(void **state)
{
	assert_int_equal(share_fd(owner, "k", GPUSHARE_FLAG_KEEP, 0, 0), GPUSHARE_OK);
	raw_peer_end(owner);
	adopt(0640, TEAM);
	assert_int_equal(raw_seen(member, "k")->mode, 0640);
	assert_int_equal(raw_seen(member, "k")->owner_gid, TEAM);
	raw_peer_end(owner);
	adopt(0, 0); /* these stay */
	assert_int_equal(raw_seen(member, "k")->mode, 0640);
	assert_int_equal(raw_seen(member, "k")->owner_gid, TEAM);
}

static void the_index_has_what_all_may_read(void **state)
{
	const struct index_page *page = raw_fds_page(FDS_INDEX, sizeof(*page));
	struct index_record found;

	if (!page)
		skip();
	share(owner, "mine", 0660, TEAM);
	share(owner, "odd", 0604, TEAM);
	share(owner, "open", 0644, TEAM);
	assert_false(index_find(page, "mine", &found));
	assert_false(index_find(page, "odd", &found));
	assert_true(index_find(page, "open", &found));
	assert_int_equal(found.mode, 0644);
	assert_int_equal(found.owner_gid, TEAM);
}

/* The daemon cuts a page short if it takes too much work. Such a page still ends with a name
 * that the peer may see. */
static void a_pages_end_tells_of_nothing_hidden(void **state)
{
	enum { COUNT = 1500 };
	char name[GPUSHARE_NAME_MAX + 1], glob[GPUSHARE_NAME_MAX + 1];
	request what = {.which_verb = gpushare_Request_list_tag};
	const gpushare_ListReply *page = &raw_answer.body.list;
	int found = 0, pages = 0;

	for (int i = 0; i < COUNT; i++) {
		memset(name, 'a', sizeof(name));
		snprintf(name + GPUSHARE_NAME_MAX - 4, 5, "%04d", i);
		share(member, name, 0, 0);
		name[0] = 'b';
		share(owner, name, 0, 0);
	}
	memset(glob, 'x', sizeof(glob));
	memcpy(glob, "*[09", 4);
	strcpy(glob + 240, "]999*");
	strcpy(what.verb.list.glob, glob);
	do {
		assert_int_equal(raw_say(member, what), GPUSHARE_OK);
		found += page->buffers_count;
		assert_true(!page->more || page->after[0] == 'a');
		assert_true(!page->more || strcmp(page->after, what.verb.list.after) > 0);
		strcpy(what.verb.list.after, page->after);
		pages++;
	} while (page->more);
	assert_int_equal(found, 1);
	assert_in_range(pages, 60 * 10, 160 * 10);
}

static int set_up_small(void **state)
{
	return serve("user_names = 2\nnames = 3\nuser_kept_bytes = 4096\nuser_attachments = 3\n"
		     "user_connections = 2\nuser_waiters = 1\nuser_watchers = 1\nuser_tags = 4\n"
		     "user_deferred = 1\nuser_descriptors = 2\ndescriptors = 3\n");
}

/* Expect a refusal whose sentence names the key. It counts once for that user and in root's sum,
 * and not for another user. */
static void assert_limited(int peer, int status, const char *key)
{
	assert_int_equal(status, GPUSHARE_E_LIMIT);
	raw_assert_sentence(key);
	assert_int_equal(configured_limits(peer, key), 1);
	assert_int_equal(configured_limits(other, key), 0);
	assert_int_equal(configured_limits(root, key), 1);
}

static void a_part_has_the_descriptor_of_its_whole(void **state)
{
	request what = {.which_verb = gpushare_Request_share_tag};
	gpushare_Share *part = &what.verb.share;

	assert_int_equal(share_fd(owner, "w", 0, 0, 0), GPUSHARE_OK);
	part->part_of = raw_seen(owner, "w")->generation;
	assert_int_equal(share_fd(owner, "v", 0, 0, 0), GPUSHARE_OK);
	assert_int_equal(order(owner, "w", part->part_of, 0), GPUSHARE_E_LIMIT);
	raw_assert_sentence("no free slot or no page");
	assert_int_equal(raw_say(owner, raw_withdraw("v", 0)), GPUSHARE_OK);
	part->has_buffer = true;
	part->buffer.size = 1;
	strcpy(part->buffer.name, "p");
	assert_int_equal(raw_say(owner, what), GPUSHARE_OK);
	assert_int_equal(raw_stat(owner).descriptors, 1);
	assert_int_equal(raw_say(owner, raw_withdraw("w", 0)), GPUSHARE_OK);
	assert_int_equal(raw_stat(owner).descriptors, 1);
	assert_int_equal(raw_say(owner, raw_withdraw("p", 0)), GPUSHARE_OK);
	assert_int_equal(raw_stat(owner).descriptors, 0);
}

static void attachments_have_a_limit(void **state)
{
	int again = raw_peer(OWNER, 0);

	share(member, "a", 0666, 0);
	assert_int_equal(attach(owner, "a", false), GPUSHARE_OK);
	assert_int_equal(attach(owner, "a", false), GPUSHARE_OK);
	assert_int_equal(attach(again, "a", false), GPUSHARE_OK);
	assert_limited(owner, attach(owner, "a", false), "user_attachments");
	assert_int_equal(attach(other, "a", false), GPUSHARE_OK);
	raw_peer_end(again);
	raw_await_connections(root, 4);
	assert_int_equal(attach(owner, "a", false), GPUSHARE_OK);
	assert_int_equal(raw_stat(owner).attachments, 3);
	assert_int_equal(raw_stat(root).attachments, 4);
}

static void waiters_and_watchers_have_limits(void **state)
{
	request wait = raw_lookup("zz", 60000);
	const request watch = {.which_verb = gpushare_Request_subscribe_tag};
	int again = raw_peer(OWNER, 0);

	assert_true(raw_send(again, 1, &wait));
	while (raw_stat(root).waiters != 1)
		raw_sleep_ms(1);
	assert_limited(owner, raw_say(owner, raw_lookup("zz", 10)), "user_waiters");
	assert_int_equal(raw_say(member, raw_lookup("zz", 10)), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(raw_say(owner, watch), GPUSHARE_OK);
	raw_peer_end(again);
	again = raw_peer(OWNER, 0);
	assert_limited(owner, raw_say(again, watch), "user_watchers");
	assert_int_equal(raw_say(member, watch), GPUSHARE_OK);
	raw_peer_end(owner);
	raw_await_connections(root, 4);
	assert_int_equal(raw_say(again, watch), GPUSHARE_OK);
	assert_int_equal(raw_say(again, raw_lookup("zz", 10)), GPUSHARE_E_TIMED_OUT);
}

/* If the user has no room for one more deferred free, the withdraw is answered as not deferred. */
static void deferred_has_a_limit(void **state)
{
	request leave = {.which_verb = gpushare_Request_withdraw_tag};

	leave.verb.withdraw.deferred = true;
	for (const char *name = "a"; *name; name = *name == 'a' ? "b" : "") {
		share(owner, name, 0666, 0);
		leave.verb.withdraw.generation = raw_answer.body.share.generation;
		assert_int_equal(attach(other, name, false), GPUSHARE_OK);
		strcpy(leave.verb.withdraw.name, name);
		assert_int_equal(raw_say(owner, leave), GPUSHARE_OK);
		assert_true((raw_answer.which_body == gpushare_Reply_withdraw_tag &&
			     raw_answer.body.withdraw.deferred) == (*name == 'a'));
	}
	assert_int_equal(configured_limits(owner, "user_deferred"), 1);
	assert_int_equal(raw_stat(root).deferred, 1);
}

static void connections_have_a_limit(void **state)
{
	request hello = raw_hello_request();
	int again = raw_peer(OWNER, 0), more = raw_peer_greeted(OWNER);

	assert_int_equal(raw_say(more, hello), GPUSHARE_E_LIMIT);
	raw_assert_sentence("2 connections are open");
	raw_assert_sentence("user_connections");
	assert_int_equal(configured_limits(owner, "user_connections"), 1);
	close(raw_connect(&raw_here)); /* root's connection counts for another user */
	raw_peer_end(again);
	while (raw_say(more, hello) != GPUSHARE_OK)
		raw_sleep_ms(5);
}

static int set_up_short(void **state)
{
	configured_start("message_bytes = 8Ki\n");
	return 0;
}

/* The daemon answers with an error, and the connection stays. */
static void a_message_is_too_long(void **state)
{
	static uint8_t body[8193];
	uint8_t header[SP_HEADER_SIZE + SP_ID_SIZE];
	int fd = raw_connect(&raw_here);

	sp_header(header, 7, sizeof(body));
	assert_true(raw_write(fd, header, sizeof(header)));
	assert_true(raw_write(fd, body, sizeof(body)));
	assert_true(raw_receive(fd, 7, &raw_answer, RAW_TIMEOUT_MS));
	assert_int_equal(raw_answer.status, GPUSHARE_E_LIMIT);
	raw_assert_sentence("8193 bytes; the limit is 8192");
	raw_assert_sentence("message_bytes");
	assert_int_equal(configured_limits(fd, "message_bytes"), 1);
	assert_int_equal(raw_say(fd, raw_share("a")), GPUSHARE_OK);
	close(fd);
}

static void others_are_needed(void **state)
{
	printf("skipped: only root can be other users\n");
	skip();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, set_up_small, tear_down)
	struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_message_is_too_long, set_up_short, raw_tear_down),
	    TEST(what_may_not_be_seen_does_not_exist),
	    TEST(publishing_needs_the_right_to_write),
	    TEST(nobody_tells_himself_into_what_is_not_his),
	    TEST(only_root_and_its_user_end_the_registry),
	    TEST(nobody_brings_back_what_was_anothers),
	    TEST(who_adopts_a_buffer_may_give_it_other_rights),
	    TEST(the_index_has_what_all_may_read),
	    TEST(a_pages_end_tells_of_nothing_hidden),
	    SMALL(a_part_has_the_descriptor_of_its_whole),
	    SMALL(attachments_have_a_limit),
	    SMALL(waiters_and_watchers_have_limits),
	    SMALL(deferred_has_a_limit),
	    SMALL(connections_have_a_limit),
	};

	for (size_t i = 0; geteuid() && i < sizeof(tests) / sizeof(*tests); i++) {
		if (tests[i].teardown_func == tear_down)
			tests[i] =
			    (struct CMUnitTest){tests[i].name, others_are_needed, NULL, NULL, NULL};
	}
	return cmocka_run_group_tests_name("users", tests, NULL, NULL);
}
