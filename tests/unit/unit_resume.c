/* SPDX-License-Identifier: MIT */
/* Connections that come back, and what they tell of. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "os/clock.h"
#include "fake_fdstore.h"
#include "restore.h"
#include "successor.h"

#define KEEP GPUSHARE_FLAG_KEEP

static uint8_t key[GPUSHARE_SESSION_KEY_SIZE];

/* A connection of this process; its key is kept. */
static struct session *connect_me(void)
{
	struct session *session = successor_connect(getpid());

	assert_false(peer_answer.body.hello.resumed);
	memcpy(key, peer_answer.body.hello.session, sizeof(key));
	return session;
}

static struct session *resume_me(bool resumed)
{
	struct session *session = successor_resume(getpid(), key);

	assert_int_equal(peer_answer.body.hello.resumed, resumed);
	/* The same one: a resumption whose answer was lost is tried again. */
	assert_int_equal(!memcmp(peer_answer.body.hello.session, key, sizeof(key)), resumed);
	memcpy(key, peer_answer.body.hello.session, sizeof(key));
	return session;
}

/* Whether that generation was wanted. */
static bool wanted(uint64_t generation)
{
	const gpushare_ResyncReply *body = &peer_answer.body.resync;

	for (pb_size_t i = 0; i < body->wanted_count; i++) {
		if (body->wanted[i] == generation)
			return true;
	}
	return false;
}

static void resync(struct session *session, request what, bool last)
{
	what.which_verb = gpushare_Request_resync_tag;
	what.verb.resync.last = last;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
}

/* As if nothing had been written down. */
static void lose_all(void)
{
	registry_let_go(peer_registry, false);
	successor_start();
}

static void a_session_is_resumed_by_its_process_alone(void **state)
{
	pid_t other = successor_process();
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE],
	    unknown[GPUSHARE_SESSION_KEY_SIZE] = {1};
	struct session *session = connect_me(), *stranger;
	uint64_t generation = peer_share(session, "x");

	(void)state;
	assert_memory_not_equal(key, none, sizeof(none));
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	successor_start();
	stranger = successor_resume(other, key);
	assert_false(peer_answer.body.hello.resumed);
	assert_int_equal(peer_withdraw(stranger, "x", generation), GPUSHARE_E_DENIED);
	successor_resume(getpid(), unknown);
	assert_false(peer_answer.body.hello.resumed);
	successor_resume(getpid(), none);
	assert_false(peer_answer.body.hello.resumed);
	assert_int_equal(peer_registry->sessions.disconnected, 1);
	session = resume_me(true);
	assert_int_equal(peer_registry->sessions.disconnected, 0);
	assert_int_equal(peer_registry->sessions.count, 4);
	assert_int_equal(peer_registry->sessions.attachments, 1);
	assert_int_equal(peer_detach(session, "x", generation), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(session, "x", generation), GPUSHARE_OK);
	peer_share(session, "y");
	/* And over the next restart. */
	successor_start();
	session = resume_me(true);
	assert_null(registry_disconnect(peer_registry, session));
	assert_int_equal(peer_registry->store.count, 0);
	successor_end(other);
}

static void a_connection_that_lingers_gives_it_all_up(void **state)
{
	struct session *old = connect_me(), *session;
	uint64_t generation = peer_share(old, "x");

	(void)state;
	assert_int_equal(peer_attach(old, "x"), GPUSHARE_OK);
	session = resume_me(true);
	assert_int_equal(peer_withdraw(old, "x", generation), GPUSHARE_E_DENIED);
	assert_null(registry_disconnect(peer_registry, old));
	assert_int_equal(peer_registry->store.count, 1);
	assert_int_equal(peer_registry->sessions.attachments, 1);
	successor_start();
	assert_int_equal(peer_registry->sessions.attachments, 1);
	session = resume_me(true);
	assert_int_equal(peer_withdraw(session, "x", generation), GPUSHARE_OK);
	/* Who has something already takes over nothing. */
	peer_share(session, "y");
	old = connect_me();
	peer_share(old, "z");
	request what = {.which_verb = gpushare_Request_hello_tag,
			.verb.hello.protocol = GPUSHARE_PROTOCOL};
	memcpy(what.verb.hello.resume, old->key, sizeof(key));
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.hello.resumed);
	memcpy(what.verb.hello.resume, session->key, sizeof(key)); /* its own */
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_false(peer_answer.body.hello.resumed);
}

static void what_is_not_told_of_goes(void **state)
{
	pid_t other = successor_process();
	struct session *session = connect_me(), *a = successor_connect(other);
	uint64_t x = peer_share(session, "x"), z = peer_share(a, "z"), w = peer_share(a, "w");
	request what, told = {0}, more = {0};

	(void)state;
	peer_share(session, "y");
	what = successor_share("kept", KEEP);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(peer_attach(session, "z"), GPUSHARE_OK);
	assert_int_equal(peer_attach(session, "w"), GPUSHARE_OK);
	assert_int_equal(peer_attach(session, "w"), GPUSHARE_OK);
	successor_start();
	session = resume_me(true);
	successor_tell(&told, "x", x, 0);
	resync(session, told, false);
	assert_int_equal(peer_answer.body.resync.wanted_count, 0);
	assert_int_equal(peer_registry->store.count, 5); /* not before the last part */
	assert_int_equal(peer_registry->sessions.attachments, 3);
	peer_share(session, "new"); /* between two parts: it is known, and stays */
	assert_int_equal(peer_attach(session, "w"), GPUSHARE_OK);
	successor_tell(&more, "w", w, 5);
	resync(session, more, true);
	assert_int_equal(peer_answer.body.resync.wanted_count, 0);
	a = successor_connect(other);
	assert_int_equal(successor_seen(a, "x")->generation, x);
	assert_int_equal(peer_lookup(a, "y", 0), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("withdrew it 0 s ago");
	assert_true(successor_seen(a, "kept")->owner_gone);
	assert_false(successor_seen(a, "new")->owner_gone);
	assert_int_equal(successor_seen(a, "z")->attachers, 0);
	assert_int_equal(successor_seen(a, "w")->attachers, 5);
	assert_int_equal(peer_detach(session, "z", z), GPUSHARE_E_NOT_FOUND);
	/* A second time it begins from nothing. */
	resync(session, (request){0}, true);
	assert_int_equal(peer_registry->store.count, 3); /* z, w, kept */
	assert_int_equal(peer_registry->sessions.attachments, 0);
	successor_start();
	assert_int_equal(peer_registry->store.count, 3);
	assert_int_equal(peer_registry->sessions.attachments, 0);
	successor_end(other);
}

static void what_is_lost_is_shared_again(void **state)
{
	pid_t other = successor_process();
	struct session *session = connect_me(), *a = successor_connect(other);
	uint64_t x = peer_share(session, "x");
	request told = {0}, attached = {0}, what;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	lose_all();
	/* The attacher comes first. */
	a = successor_connect(other);
	successor_tell(&attached, "x", x, 2);
	resync(a, attached, true);
	assert_true(wanted(x));
	session = resume_me(false);
	successor_tell(&told, "x", x, 0);
	resync(session, told, true);
	assert_true(wanted(x));
	what = peer_share_of("x");
	what.verb.share.again = x;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.share.generation, x);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK); /* said twice */
	assert_int_equal(successor_seen(a, "x")->generation, x);
	assert_int_equal(successor_seen(a, "x")->attachers, 2);
	assert_int_equal(successor_seen(a, "x")->owner_pid, getpid());
	resync(session, told, true);
	assert_int_equal(peer_answer.body.resync.wanted_count, 0);
	assert_int_equal(peer_detach(a, "x", x), GPUSHARE_OK);
	assert_int_equal(successor_seen(a, "x")->attachers, 1);
	assert_int_equal(peer_attach(session, "x"), GPUSHARE_OK);
	assert_int_equal(successor_seen(a, "x")->attachers, 1); /* the owner's own */
	successor_start();
	assert_int_equal(successor_seen(resume_me(true), "x")->attachers, 1);
	successor_end(other);
}

static int share_again(struct session *session, const char *name, uint64_t generation)
{
	request what = peer_share_of(name);

	what.verb.share.again = generation;
	return peer_ask(session, &what);
}

static void a_generation_is_one_names(void **state)
{
	pid_t other = successor_process();
	struct session *session = connect_me(), *a = successor_connect(other);
	uint64_t x = peer_share(session, "x"), far = x + 5000000;

	(void)state;
	assert_int_equal(share_again(session, "y", x), GPUSHARE_E_EXISTS);
	peer_assert_sentence("is \"x\", not \"y\"");
	assert_int_equal(share_again(a, "x", x), GPUSHARE_E_EXISTS); /* another living owner */
	assert_int_equal(share_again(session, "x", x + 1), GPUSHARE_E_EXISTS);
	assert_int_equal(share_again(session, "y", UINT64_MAX), GPUSHARE_E_INVALID);
	assert_int_equal(share_again(session, "y", far), GPUSHARE_OK);
	assert_int_equal(share_again(session, "z", far), GPUSHARE_E_EXISTS);
	assert_true(peer_share(a, "w") > far);
	successor_start();
	assert_true(peer_share(connect_me(), "v") > far);
	successor_end(other);
}

static void a_share_again_is_checked_like_any(void **state)
{
	struct session *session = connect_me();
	request what = successor_share("x", KEEP);

	(void)state;
	what.verb.share.orphan = true;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("without its generation");
	what.verb.share.again = 1;
	what.verb.share.buffer.flags = 0;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_INVALID);
	peer_assert_sentence("without keep");
	what.verb.share.buffer.flags = KEEP;
	what.verb.share.adopt = true;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_INVALID);
	what = successor_share("x", KEEP);
	what.verb.share.again = 1;
	peer_registry->limits.kept_bytes = 1;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_LIMIT);
	peer_assert_sentence("would keep");
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_INVALID); /* it went with that one */
	peer_assert_sentence("without its file descriptor");
	what = successor_share("x", KEEP);
	what.verb.share.again = 1;
	peer_registry->limits.kept_bytes = 1000;
	peer_registry->limits.names = 0;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_E_LIMIT);
	peer_assert_sentence("names are shared");
	what = successor_share("x", KEEP);
	what.verb.share.again = 1;
	peer_registry->limits.names = 1;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
}

static void too_many_attachments_are_refused(void **state)
{
	struct session *session = connect_me();
	request told = {0}, many = {0};

	(void)state;
	peer_registry->limits.attachments = 10;
	successor_tell(&told, "a", 1, 4);
	successor_tell(&told, "b", 2, 6);
	resync(session, told, false);
	successor_tell(&many, "a", 1, UINT32_MAX);
	assert_int_equal(peer_ask(session, &many), GPUSHARE_E_LIMIT);
	assert_int_equal(peer_registry->sessions.attachments, 10);
	many.verb.resync.attached[0].count = 3;
	many.verb.resync.last = true;
	assert_int_equal(peer_ask(session, &many), GPUSHARE_OK);
	assert_int_equal(peer_registry->sessions.attachments, 9); /* b was told of before */
	resync(session, (request){0}, true);
	assert_int_equal(peer_registry->sessions.attachments, 0);
}

/* A connection ended, its owner did not. */
static void an_owner_takes_back_what_it_kept(void **state)
{
	pid_t other = successor_process();
	struct session *session = connect_me();
	request what = successor_share("x", KEEP), told = {0}, wrong;
	uint64_t x;

	(void)state;
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	x = peer_answer.body.share.generation;
	assert_null(registry_disconnect(peer_registry, session));
	successor_tell(&told, "x", x, 0);
	resync(successor_connect(other), told, true);
	assert_true(wanted(x));
	assert_non_null(peer_registry->kept.root);
	session = resume_me(false);
	resync(session, told, true);
	assert_false(wanted(x));
	assert_null(peer_registry->kept.root);
	assert_false(successor_seen(session, "x")->owner_gone);
	wrong = successor_share("x", KEEP);
	wrong.verb.share.again = x;
	wrong.verb.share.buffer.size--;
	assert_int_equal(peer_ask(session, &wrong), GPUSHARE_E_INVALID);
	successor_end(other);
}

static void a_ghost_is_no_connection(void **state)
{
	struct session *session = connect_me();

	(void)state;
	peer_share(session, "x");
	successor_start();
	peer_registry->limits.connections = 1;
	session = resume_me(true);
	assert_int_equal(sessions_connected(&peer_registry->sessions), 1);
	peer_share(session, "y");
	successor_start();
	peer_registry->limits.connections = 1;
	connect_me(); /* whoever that is; the ghost takes nobody's place */
	assert_int_equal(peer_registry->sessions.count, 2);
}

static uint64_t share_kept(struct session *session, const char *name)
{
	request what = successor_share(name, KEEP);

	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return peer_answer.body.share.generation;
}

/* What nobody has heard of is not kept; what had the name by then its owner knows of. */
static void what_was_not_answered_goes(void **state)
{
	request told = {0};
	struct session *session = connect_me();
	uint64_t other = share_kept(session, "other"), known = share_kept(session, "w");

	(void)state;
	strcpy(told.verb.resync.unanswered, "w");
	told.verb.resync.unanswered_after = known;
	resync(session, told, true);
	assert_true(successor_seen(session, "w")->owner_gone);
	assert_true(successor_seen(session, "other")->owner_gone);
	assert_true(share_kept(session, "w") > known && known > other);
	resync(session, told, true);
	assert_int_equal(peer_lookup(session, "w", 0), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_registry->store.count, 1);
	/* what was kept before this process began, and adopted without an answer, is another's too */
	share_kept(session, "w");
	store_find(&peer_registry->store, "w")->created_ns =
	    clock_ns() - clock_read_ns(CLOCK_BOOTTIME) + 1;
	resync(session, told, true);
	assert_true(successor_seen(session, "w")->owner_gone);
}

#define with_registry(test) \
	cmocka_unit_test_setup_teardown(test, successor_set_up, successor_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(a_session_is_resumed_by_its_process_alone),
	    with_registry(a_connection_that_lingers_gives_it_all_up),
	    with_registry(what_is_not_told_of_goes),
	    with_registry(what_is_lost_is_shared_again),
	    with_registry(a_generation_is_one_names),
	    with_registry(a_share_again_is_checked_like_any),
	    with_registry(too_many_attachments_are_refused),
	    with_registry(a_ghost_is_no_connection),
	    with_registry(an_owner_takes_back_what_it_kept),
	    with_registry(what_was_not_answered_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
