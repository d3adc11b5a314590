/* SPDX-License-Identifier: MIT */
/* Processes of pid namespaces below ours: where they are, that they have ended, that nobody knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shown.h"
#include "successor.h"
#include "unseen.h"

#define UNKNOWN_NAMESPACE 4026539999u
#define A_PID 4194000 /* of nobody, as nothing but its folder is looked at */
#define B_PID 4194001

static int set_up(void **state)
{
	(void)state;
	shown_set_up();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	shown_tear_down();
	return 0;
}

/* What is found, with the first namespace being `first`. */
static enum sight look_for(uint64_t first, uint64_t pid_namespace, int32_t pid, int32_t *out_pid)
{
	struct unseen *unseen = unseen_open(shown_proc, first);
	enum sight sight;

	assert_non_null(unseen);
	sight = unseen_find(unseen, pid_namespace, pid, out_pid);
	assert_null(unseen_close(unseen));
	return sight;
}

static enum sight look(uint64_t pid_namespace, int32_t pid)
{
	int32_t found;

	return look_for(0, pid_namespace, pid, &found);
}

static void it_is_found_by_its_number_there(void **state)
{
	int32_t pid = 0;

	(void)state;
	shown_process(A_PID, "4194000\t7", 1);
	shown_process(B_PID, "4194001\t12\t7", 2);
	assert_int_equal(look_for(0, shown_namespace(1), 7, &pid), SIGHT_HERE);
	assert_int_equal(pid, A_PID);
	assert_int_equal(look_for(0, shown_namespace(2), 7, &pid), SIGHT_HERE);
	assert_int_equal(pid, B_PID);
	assert_int_equal(look_for(0, shown_namespace(0), getpid(), &pid), SIGHT_HERE);
	assert_int_equal(pid, getpid());
}

static void whose_namespace_shows_others_has_ended(void **state)
{
	(void)state;
	shown_process(A_PID, "4194000\t7", 1);
	assert_int_equal(look(shown_namespace(1), 8), SIGHT_GONE);
	assert_int_equal(look(shown_namespace(0), getpid() + 1), SIGHT_GONE);
	/* 12 in a namespace between has no such number in its own */
	shown_process(B_PID, "4194001\t12\t7", 2);
	assert_int_equal(look(shown_namespace(1), 12), SIGHT_GONE);
}

static void a_namespace_that_shows_nobody_may_be_out_of_sight(void **state)
{
	int32_t pid;

	(void)state;
	shown_process(A_PID, "4194000\t7", 1);
	assert_int_equal(look(UNKNOWN_NAMESPACE, 7), SIGHT_NONE);
	/* unless this is the one above them all */
	assert_int_equal(look_for(shown_namespace(0), UNKNOWN_NAMESPACE, 7, &pid), SIGHT_GONE);
	assert_int_equal(look_for(shown_namespace(1), UNKNOWN_NAMESPACE, 7, &pid), SIGHT_NONE);
}

static void who_may_be_hidden_has_not_ended(void **state)
{
	static const char *const hiding[] = {"rw,hidepid=1", "rw,hidepid=2", "rw,hidepid=invisible",
					     "rw,hidepid=ptraceable"};

	(void)state;
	shown_process(A_PID, "4194000\t7", 1);
	for (size_t at = 0; at < sizeof(hiding) / sizeof(*hiding); at++) {
		shown_mounted(hiding[at]);
		assert_int_equal(look(shown_namespace(1), 8), SIGHT_NONE);
	}
	shown_mounted("rw,hidepid=off");
	assert_int_equal(look(shown_namespace(1), 8), SIGHT_GONE);
	shown_mounted("rw,hidepid=0");
	assert_int_equal(look(shown_namespace(1), 8), SIGHT_GONE);
}

static void who_can_not_be_told_has_not_ended(void **state)
{
	(void)state;
	shown_process(A_PID, "4194000\t7", 1);
	shown_process(B_PID, "4194001\t8", -1); /* its namespace can't be seen, its number can */
	assert_int_equal(look(shown_namespace(1), 8), SIGHT_NONE);
	assert_int_equal(look(shown_namespace(1), 9), SIGHT_GONE);
	shown_process(B_PID, "4194001", -1); /* one number: it is of ours */
	assert_int_equal(look(shown_namespace(1), 8), SIGHT_GONE);
	shown_process(B_PID, NULL, 1);
	assert_int_equal(look(shown_namespace(1), 9), SIGHT_NONE);
}

/* A /proc of another namespace has other numbers. */
static void another_namespaces_proc_says_nothing(void **state)
{
	char path[128];
	int32_t pid;

	(void)state;
	shown_process(A_PID, "4194000\t7", 1);
	snprintf(path, sizeof(path), "%s/self", shown_proc);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(look(shown_namespace(1), 7), SIGHT_NONE);
	assert_int_equal(symlink("4194000", path), 0);
	assert_int_equal(look(shown_namespace(1), 7), SIGHT_NONE);
	assert_int_equal(look_for(shown_namespace(1), shown_namespace(1), 8, &pid), SIGHT_NONE);
}

static struct process said(uint64_t started)
{
	struct process process = {.uid = getuid()};

	process_says(&process, shown_namespace(1), 7, started);
	return process;
}

/* What becomes of who said that, its stack having begun there. */
static struct process looked_at(struct process process, uint64_t stack)
{
	struct unseen *unseen = unseen_open(shown_proc, 0);

	unseen_look(unseen, &process, stack);
	unseen_close(unseen);
	return process;
}

static void who_is_there_still_is_told_by_start_and_stack(void **state)
{
	pid_t child = successor_process();
	struct process is, found;
	char numbers[32];

	(void)state;
	snprintf(numbers, sizeof(numbers), "%d\t7", child);
	shown_process(child, numbers, 1);
	process_read(child, getuid(), &is);
	found = looked_at(said(is.started), is.stack);
	assert_int_equal(found.pid, child);
	assert_int_equal(found.started, is.started);
	assert_int_equal(found.stack, is.stack);
	assert_false(found.gone);
	assert_true(process_lives(&found));

	found = looked_at(said(is.started), is.stack + 16); /* exec */
	assert_int_equal(found.pid, 0);
	assert_true(found.gone);
	found = looked_at(said(is.started), 0); /* which can't be told */
	assert_int_equal(found.pid, 0);
	assert_false(found.gone);
	found = looked_at(said(is.started + 1), is.stack);
	assert_int_equal(found.pid, 0);
	assert_false(found.gone);
	found = said(is.started);
	found.uid++;
	found = looked_at(found, is.stack);
	assert_int_equal(found.pid, 0);
	assert_false(found.gone);

	kill(child, SIGKILL);
	waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT);
	found = looked_at(said(is.started), is.stack); /* a zombie */
	assert_int_equal(found.pid, 0);
	assert_true(found.gone);
	successor_end(child);
}

static void who_is_not_looked_for_stays_as_it_is(void **state)
{
	struct process nobody = {.uid = getuid()}, visible = said(5);

	(void)state;
	visible.pid = getpid();
	visible = looked_at(visible, 1);
	assert_int_equal(visible.pid, getpid());
	assert_false(visible.gone);
	assert_false(looked_at(nobody, 1).gone);
	unseen_look(NULL, &nobody, 1);
	assert_false(nobody.gone);
	shown_process(A_PID, "4194000\t8", 1);
	assert_true(looked_at(said(5), 1).gone);
}

#define with_proc(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_proc(it_is_found_by_its_number_there),
	    with_proc(whose_namespace_shows_others_has_ended),
	    with_proc(a_namespace_that_shows_nobody_may_be_out_of_sight),
	    with_proc(who_may_be_hidden_has_not_ended),
	    with_proc(who_can_not_be_told_has_not_ended),
	    with_proc(another_namespaces_proc_says_nothing),
	    with_proc(who_is_there_still_is_told_by_start_and_stack),
	    with_proc(who_is_not_looked_for_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
