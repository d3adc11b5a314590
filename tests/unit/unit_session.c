/* SPDX-License-Identifier: MIT */
/* What hangs on a connection, without a socket: attachments, names, waiters; who a process is. */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "peer.h"

static void attachers_are_counted(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a"),
		       *b = peer_new(3, 30, "b");
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_answer.body.attach.buffer.attachers, 1);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(b, "x"), GPUSHARE_OK);
	assert_int_equal(peer_attach(owner, "x"), GPUSHARE_OK); /* not an attacher */
	assert_int_equal(peer_attachers(owner, "x"), 3);
	assert_int_equal(peer_registry->sessions.attachments, 4);

	assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_OK);
	assert_int_equal(peer_attachers(owner, "x"), 2);
	assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_OK);
	assert_int_equal(peer_detach(a, "x", generation), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("has not attached \"x\"");
	assert_int_equal(peer_detach(b, "x", generation + 1), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_detach(b, "y", generation), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_detach(owner, "x", generation), GPUSHARE_OK);
	assert_int_equal(peer_attachers(owner, "x"), 1);
	assert_null(registry_disconnect(peer_registry, b));
	assert_int_equal(peer_attachers(owner, "x"), 0);
	assert_int_equal(peer_registry->sessions.attachments, 0);
}

static void an_attachment_outlives_the_name(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *a = peer_new(2, 20, "a");
	uint64_t first = peer_share(owner, "x"), second;

	(void)state;
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(owner, "x", first), GPUSHARE_OK);
	assert_int_equal(peer_registry->sessions.attachments, 1);
	second = peer_share(owner, "x");
	assert_true(second > first);
	assert_int_equal(peer_attach(a, "x"), GPUSHARE_OK);
	assert_int_equal(peer_detach(a, "x", first), GPUSHARE_OK);
	assert_int_equal(peer_attachers(owner, "x"), 1); /* that of the second */
	assert_int_equal(peer_detach(a, "x", first), GPUSHARE_E_NOT_FOUND);
	assert_int_equal(peer_detach(a, "x", second), GPUSHARE_OK);
	assert_int_equal(peer_attachers(owner, "x"), 0);
}

static void only_the_session_withdraws_a_generation(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	uint64_t generation = peer_share(owner, "x");

	(void)state;
	assert_int_equal(peer_withdraw(other, "x", generation), GPUSHARE_E_DENIED);
	assert_int_equal(peer_withdraw(owner, "x", generation + 1), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("another buffer now");
	assert_int_equal(peer_registry->store.count, 1);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_OK);
	assert_int_equal(peer_withdraw(owner, "x", generation), GPUSHARE_E_NOT_FOUND);
	peer_assert_sentence("pid 10 (owner) withdrew it 0 s ago");
}

static void the_same_user_unlinks(void **state)
{
	struct session *owner = peer_new(1, 10, "owner"), *other = peer_new(2, 20, "other");
	struct session *stranger = peer_new(3, 30, "stranger");

	(void)state;
	stranger->peer.uid = stranger->who.uid = 1001;
	peer_share(owner, "x");
	assert_int_equal(peer_withdraw(stranger, "x", 0), GPUSHARE_E_NOT_FOUND);
	store_find(&peer_registry->store, "x")->info.mode = 0604;
	assert_int_equal(peer_withdraw(stranger, "x", 0), GPUSHARE_E_DENIED);
	assert_int_equal(peer_withdraw(other, "x", 0), GPUSHARE_OK);
	assert_int_equal(peer_lookup(other, "x", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message,
			    "\"x\" is gone: it was unlinked 0 s ago; pid 10 (owner) had it");
	peer_share(owner, "x"); /* the name is free, and the owner's session holds together */
	assert_null(registry_disconnect(peer_registry, owner));
	assert_int_equal(peer_registry->store.count, 0);
}

static void a_session_takes_its_names_along(void **state)
{
	struct session *owner = peer_new(1, 0x7ffffff0, "app"), *other = peer_new(2, 20, "other");
	struct tombstone *tombstone;

	(void)state;
	peer_share(owner, "a");
	peer_share(other, "b");
	peer_share(owner, "c");
	assert_int_equal(peer_attach(owner, "b"), GPUSHARE_OK);
	assert_null(registry_disconnect(peer_registry, owner));
	assert_int_equal(peer_registry->store.count, 1);
	assert_int_equal(peer_attachers(other, "b"), 0);
	assert_int_equal(peer_lookup(other, "a", 0), GPUSHARE_E_NOT_FOUND);
	tombstone = (struct tombstone *)tombstone_find(&peer_registry->tombstones, "c", clock_ns());
	tombstone->when_ns -= 3 * NS_PER_S;
	assert_int_equal(peer_lookup(other, "c", 0), GPUSHARE_E_NOT_FOUND);
	assert_string_equal(peer_answer.message,
			    "\"c\" is gone: pid 2147483632 (app) exited 3 s ago");
}

static void waiting_is_left_to_the_caller(void **state)
{
	struct session *session = peer_new(1, 10, "app");
	request what = {.which_verb = gpushare_Request_attach_tag};

	(void)state;
	assert_int_equal(peer_lookup(session, "x", 5), HANDLE_WAIT);
	strcpy(what.verb.attach.name, "x");
	what.verb.attach.wait_ms = UINT32_MAX;
	assert_int_equal(peer_ask(session, &what), HANDLE_WAIT);
	assert_string_equal(handle_wait_name(&what), "x");
	assert_int_equal(handle_wait_ms(&what), 24 * 3600 * 1000);
	handle_timeout(peer_registry, session, &what, &peer_answer);
	assert_int_equal(peer_answer.status, GPUSHARE_E_TIMED_OUT);
	assert_string_equal(peer_answer.message, "no buffer is named \"x\"; nothing is shared now");
	peer_share(session, "x");
	assert_int_equal(peer_lookup(session, "x", 5), GPUSHARE_OK);
}

static void the_waiters_of_a_session_come_back(void **state)
{
	struct session *a = peer_new(1, 10, "a"), *b = peer_new(2, 20, "b");
	request what = {.which_verb = gpushare_Request_lookup_tag};
	struct waiter waiters[3] = {
	    {.session = a, .ask = &what, .deadline_ns = 30},
	    {.session = b, .ask = &what, .deadline_ns = 20},
	    {.session = a, .ask = &what, .deadline_ns = 10},
	};
	struct waiter *taken;

	(void)state;
	assert_true(registry_next_deadline_ns(peer_registry) == INT64_MAX);
	for (int i = 0; i < 3; i++)
		registry_park(peer_registry, &waiters[i]);
	assert_int_equal(registry_next_deadline_ns(peer_registry), 10);
	taken = registry_disconnect(peer_registry, a);
	assert_ptr_equal(taken, &waiters[0]);
	assert_ptr_equal(taken->next, &waiters[2]);
	assert_null(taken->next->next);
	assert_int_equal(peer_registry->waiter_count, 1);
	assert_int_equal(registry_next_deadline_ns(peer_registry), 20);
	registry_unpark(peer_registry, &waiters[1]);
}

static void a_process_is_told_from_its_successor(void **state)
{
	struct process me, child;
	pid_t pid;

	(void)state;
	process_read(getpid(), getuid(), &me);
	assert_true(me.started > 0);
	assert_true(*me.command);
	assert_true(process_runs(&me));
	assert_true(process_is_same(&me, &me));
	me.started--;
	assert_false(process_runs(&me));

	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	process_read(pid, getuid(), &child);
	assert_true(child.started > 0);
	assert_false(process_runs(&child)); /* a zombie holds nothing */
	waitpid(pid, NULL, 0);
	process_read(pid, getuid(), &child);
	assert_int_equal(child.started, 0);
	assert_string_equal(child.command, "");
	process_read(0, 5, &child);
	assert_int_equal(child.uid, 5);
	assert_false(process_runs(&child));
}

#define with_registry(test) cmocka_unit_test_setup_teardown(test, peer_set_up, peer_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_registry(attachers_are_counted),
	    with_registry(an_attachment_outlives_the_name),
	    with_registry(only_the_session_withdraws_a_generation),
	    with_registry(the_same_user_unlinks),
	    with_registry(a_session_takes_its_names_along),
	    with_registry(waiting_is_left_to_the_caller),
	    with_registry(the_waiters_of_a_session_come_back),
	    cmocka_unit_test(a_process_is_told_from_its_successor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
