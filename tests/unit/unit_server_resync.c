/* SPDX-License-Identifier: MIT */
/* The real daemon is killed, and its clients tell the next one what they share and attach. */
#include "unit.h"

#include "configured.h"
#include "order_page.h"
#include "peer.h"
#include "persist/records.h"
#include "raw_peer.h"

#define KEEP GPUSHARE_FLAG_KEEP
#define MANY 100000 /* buffers, far more than one piece of work looks at */
#define FAR 5000000 /* distance to a generation that no buffer has had */

static int me, other; /* two client processes */

static int set_up(void **state)
{
	configured_start("attachments = 10\n");
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

static void a_generation_is_one_names(void **state)
{
	uint64_t x = raw_shared(me, "x"), far = x + FAR;
	int next;

	assert_int_equal(share_again(me, "y", x), GPUSHARE_E_EXISTS);
	raw_assert_sentence("is not \"y\"");
	assert_int_equal(share_again(other, "x", x), GPUSHARE_E_EXISTS); /* its owner still lives */
	assert_int_equal(share_again(me, "x", x + 1), GPUSHARE_E_EXISTS);
	assert_int_equal(share_again(me, "y", UINT64_MAX), GPUSHARE_E_INVALID);
	raw_assert_sentence("can't have had generation");
	assert_int_equal(resync_of(me, "y", UINT64_MAX, 1), GPUSHARE_E_INVALID);
	assert_int_equal(resync_of(me, "y", UINT64_MAX, 0), GPUSHARE_E_INVALID);
	/* A client that told of a generation by a wrong name is not counted as its attacher. */
	assert_int_equal(resync_of(other, "y", x, 1), GPUSHARE_OK);
	assert_int_equal(raw_seen(me, "x")->attachers, 0);
	assert_int_equal(raw_say(other, raw_detach("y", x)), GPUSHARE_E_NOT_FOUND);
	raw_attached(other, "x");
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

/* A client that resyncs an attachment under a wrong name counts as attacher of the generation. This
 * also holds after a restart of the registry. */
static void an_attacher_of_a_generation_is_counted_once(void **state)
{
	uint64_t far = raw_shared(me, "x") + FAR;

	assert_int_equal(resync_of(other, "v", far, 1), GPUSHARE_OK);
	assert_int_equal(share_again(me, "y", far), GPUSHARE_OK);
	assert_int_equal(raw_seen(me, "y")->attachers, 1);
	raw_daemon_again(SIGKILL);
	come_back(&me, true);
	come_back(&other, true);
	assert_int_equal(raw_seen(me, "y")->attachers, 1);
	assert_int_equal(raw_say(other, raw_detach("v", far)), GPUSHARE_OK);
	assert_int_equal(raw_seen(me, "y")->attachers, 0);
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

static void says_hello(int fd, const uint8_t *key, bool resumes)
{
	request hello = raw_hello_request();

	memcpy(hello.verb.hello.resume, key, GPUSHARE_SESSION_KEY_SIZE);
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.hello.resumed, resumes);
}

/* If two connections resume one session, the later connection takes it over, in whatever order the
 * hellos arrive. The registry denies what the other one asks. */
static void who_was_given_up_takes_over_nothing(void **state)
{
	uint64_t x = raw_shared(me, "x");
	const uint8_t *key = raw_hellos[me].session;
	int early, given_up, session, looks;

	raw_daemon_again(SIGKILL);
	looks = raw_connect(&raw_here); /* by its answers each connects after the one before */
	early = raw_peer_beside(me);
	raw_await_connections(looks, 2);
	given_up = raw_peer_beside(me);
	raw_await_connections(looks, 3);
	session = raw_peer_beside(me);
	raw_await_connections(looks, 4);
	close(looks);
	says_hello(given_up, key, true);
	says_hello(session, key, true);
	assert_int_equal(raw_say(given_up, raw_share("late")), GPUSHARE_E_DENIED);
	assert_int_equal(raw_say(session, raw_lookup("late", 0)), GPUSHARE_E_NOT_FOUND);
	says_hello(early, key, false);
	close(early);
	close(given_up);
	raw_await_connections(session, 1);
	/* A session that shares something already takes over nothing, not even by its own key. */
	raw_shared(session, "y");
	says_hello(session, key, false);
	assert_int_equal(raw_say(session, raw_withdraw("x", x)), GPUSHARE_OK);
	close(session);
}

static void a_key_is_one_processs(void **state)
{
	uint64_t x = raw_shared(me, "x");
	const uint8_t *key = raw_hellos[me].session;
	int back = raw_peer_beside(me), strange = raw_peer_greeted(0);

	says_hello(strange, key, false);
	says_hello(back, key, true); /* the old connection is still open */
	assert_int_equal(raw_say(me, raw_withdraw("x", x)), GPUSHARE_E_DENIED);
	assert_int_equal(raw_say(back, raw_withdraw("x", x)), GPUSHARE_OK);
	close(back);
}

/* Append a record to the file of the killed daemon, as its latest. */
static void append(const gpushare_State *what)
{
	static uint64_t stamp = 1u << 20;
	uint8_t frame[RECORDS_FRAME_MAX];
	int file = open(raw_in_folder(RECORDS_FILE), O_RDWR | O_CLOEXEC);
	struct stat is;
	size_t size;

	size = records_frame(what, ++stamp, frame);
	assert_int_equal(fstat(file, &is), 0);
	assert_int_equal(pwrite(file, frame, size,
				(is.st_size + RECORDS_UNIT - 1) / RECORDS_UNIT * RECORDS_UNIT),
			 size);
	close(file);
}

static void append_header(uint32_t version, const char *boot)
{
	gpushare_State begin = {.which_change = gpushare_State_header_tag};

	begin.change.header.version = version;
	strcpy(begin.change.header.boot, boot);
	append(&begin);
}

static void append_attachment(const uint8_t *key, const char *name, uint64_t generation,
			      uint32_t count)
{
	gpushare_State what = {.which_change = gpushare_State_attachment_tag};

	memcpy(what.change.attachment.key, key, GPUSHARE_SESSION_KEY_SIZE);
	strcpy(what.change.attachment.name, name);
	what.change.attachment.generation = generation;
	what.change.attachment.count = count;
	append(&what);
}

static void append_participant(const uint8_t *key, uint64_t generation, uint32_t roles,
			       uint32_t slot)
{
	gpushare_State what = {
	    .which_change = gpushare_State_participant_tag,
	    .change.participant = {.generation = generation, .roles = roles, .slot = slot}};

	memcpy(what.change.participant.key, key, GPUSHARE_SESSION_KEY_SIZE);
	append(&what);
}

static void records_without_sense_are_ignored(void **state)
{
	static const uint8_t nobody[GPUSHARE_SESSION_KEY_SIZE] = {1};
	const uint8_t *key = raw_hellos[other].session;
	gpushare_State twice = {.which_change = gpushare_State_session_tag};
	uint64_t x = raw_shared(me, "x");

	raw_attached(other, "x");
	raw_daemon_end(SIGKILL);
	append_attachment(nobody, "x", x, 7);
	append_attachment(key, "-x", x, 7);
	append_attachment(key, "x", 0, 7);
	append_attachment(key, "x", x, 0);
	append_participant(nobody, x, ORDER_PUBLISHES, 0);
	append_participant(key, 0, ORDER_PUBLISHES, 0);
	append_participant(key, x, 0, 1);
	append_participant(key, x, ORDER_CONSUMES, ORDER_SLOTS + 1);
	memcpy(twice.change.session.key, key, GPUSHARE_SESSION_KEY_SIZE);
	append(&twice);
	raw_daemon_start(&raw_here, NULL);
	come_back(&other, true);
	come_back(&me, true);
	assert_int_equal(raw_seen(me, "x")->attachers, 1);
	assert_int_equal(raw_stat(me).attachments, 1);
	assert_int_equal(raw_fds_say(me, raw_order("x", x, ORDER_PUBLISHES), -1), GPUSHARE_OK);
	close(raw_fds_came);
}

/* The page is lost, but not the record of a consumer's role. Until the consumer brings the page,
 * nobody gets another one. */
static void a_lost_page_is_waited_for(void **state)
{
	const uint8_t *key = raw_hellos[other].session;
	uint64_t x = raw_shared(me, "x");
	request what = raw_order("x", x, ORDER_CONSUMES);
	int page = order_page_make(x, 77), next;

	raw_attached(other, "x");
	raw_daemon_end(SIGKILL);
	append_participant(key, x, ORDER_CONSUMES, 2);
	append_participant(key, x, ORDER_CONSUMES, 3); /* newer */
	raw_daemon_start(&raw_here, NULL);
	come_back(&me, true);
	assert_int_equal(raw_fds_say(me, what, -1), GPUSHARE_E_TIMED_OUT);
	raw_assert_sentence("was lost with the keeper");
	come_back(&other, true);
	what.verb.order.again = 77;
	assert_int_equal(raw_fds_say(other, what, page), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.order.id, 77);
	assert_int_equal(raw_answer.body.order.slot, 3);
	assert_int_equal(raw_fds_say(me, raw_order("x", x, ORDER_CONSUMES), -1), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.order.id, 77);
	assert_int_equal(raw_answer.body.order.slot, 1);
	close(raw_fds_came);
	next = raw_peer(0, 0);
	raw_attached(next, "x");
	assert_int_equal(raw_fds_say(next, raw_order("x", x, ORDER_CONSUMES), -1), GPUSHARE_OK);
	assert_int_equal(raw_answer.body.order.slot, 2);
	close(raw_fds_came);
	close(page);
}

static void another_boot_or_version_is_not_heeded(void **state)
{
	char boot[sizeof(((gpushare_Header *)0)->boot)];

	records_boot(boot);
	assert_int_equal(strlen(boot), 36);
	for (int which = 0; which < 3; which++) {
		raw_shared(me, "x");
		raw_daemon_end(SIGKILL);
		append_header(RECORDS_VERSION + (which == 1),
			      which == 2 ? "01234567-0123-0123-0123-0123456789ab" : boot);
		raw_daemon_start(&raw_here, NULL);
		come_back(&me, !which);
		assert_int_equal(raw_say(me, raw_lookup("x", 0)),
				 which ? GPUSHARE_E_NOT_FOUND : GPUSHARE_OK);
		raw_say(me, raw_withdraw("x", 0));
	}
}

/* A client that has little to say resyncs in one message. The registry checks in pieces what the
 * message left out, and each piece goes on behind the one before. That is no wait for a name: it
 * goes on, too, if the user can't have one more of these. */
static void a_resync_in_one_message_ends(void **state)
{
	static const uint8_t handle[GPUSHARE_HANDLE_SIZE];
	struct session *owner = peer_new(1, 11, "owner"), *attacher = peer_new(2, 12, "attacher");
	request what = {.which_verb = gpushare_Request_resync_tag,
			.verb.resync = {.first = true, .last = true}};
	struct state *all = &peer_registry->state;
	record info = {.backing = GPUSHARE_BACKING_IPC, .size = 1, .base_size = 1};

	for (int i = 0; i < MANY; i++) {
		struct entry *entry;

		snprintf(info.name, sizeof(info.name), "n%d", i);
		entry = buffer_add(all, owner, &info, handle, 0, NULL);
		assert_non_null(entry);
		buffer_attach(all, attacher, entry->name, entry->info.generation, 1);
		buffer_defer(all, entry, DEPARTURE_WITHDRAWN, false);
	}
	user_add(owner->user, LIMIT_waiters, all->users.limits.of_user[LIMIT_waiters]);
	assert_int_equal(peer_ask(owner, &what), GPUSHARE_OK);
	assert_int_equal(all->users.total.held[LIMIT_deferred], MANY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, raw_peers_tear_down)
UNIT_MAIN(TEST(a_generation_is_one_names), TEST(an_attacher_of_a_generation_is_counted_once),
	  TEST(a_share_again_is_checked_like_any), TEST(too_many_attachments_are_refused),
	  TEST(who_was_given_up_takes_over_nothing), TEST(a_key_is_one_processs),
	  TEST(another_boot_or_version_is_not_heeded), TEST(records_without_sense_are_ignored),
	  TEST(a_lost_page_is_waited_for),
	  cmocka_unit_test_setup_teardown(a_resync_in_one_message_ends, peer_set_up,
					  peer_tear_down))
