/* SPDX-License-Identifier: MIT */
/* Which process a peer is. */
#include "unit.h"

#include "os/process.h"
#include "raw.h"

static void a_process_is_told_from_its_successor(void **state)
{
	struct process me, later, child;
	pid_t pid;

	process_read(getpid(), getuid(), &me);
	assert_true(me.started > 0);
	assert_true(*me.command);
	assert_true(process_runs(&me));
	assert_true(process_is_same(&me, &me));
	later = me;
	later.started++; /* another process with the same pid */
	assert_false(process_is_same(&me, &later));
	assert_true(process_lives(&me));
	me.started--; /* the pid alone is not enough */
	assert_false(process_runs(&me));
	assert_false(process_lives(&me));

	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	process_read(pid, getuid(), &child);
	assert_true(child.started > 0);
	assert_false(process_runs(&child)); /* a zombie doesn't run */
	waitpid(pid, NULL, 0);
	process_read(pid, getuid(), &child);
	assert_int_equal(child.started, 0);
	assert_string_equal(child.command, "");
	process_read(0, 5, &child);
	assert_int_equal(child.uid, 5);
	assert_false(process_runs(&child));
	assert_false(process_lives(&child));
	assert_int_equal(watch_add(0, 1), -1);
	assert_false(watch_ended(-1));
}

/* A process that can't be read now, because no descriptor is free, counts as living. */
static void no_free_descriptor_ends_nobody(void **state)
{
	struct rlimit before, none;
	struct process me;
	bool lives, runs;

	process_read(getpid(), getuid(), &me);
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){0, before.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	lives = process_lives(&me);
	runs = process_runs(&me);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_true(lives);
	assert_false(runs);
}

/* Protobuf strings must be UTF-8, and tools print them on terminals. */
static void a_command_has_only_printable_ascii(void **state)
{
	struct process me;

	if (raw_is_emulated()) {
		printf("skipped: the emulator gives /proc another name\n");
		skip();
	}
	prctl(PR_SET_NAME, "a\x7f\x01\xc3\xbc~ b");
	process_read(getpid(), getuid(), &me);
	assert_string_equal(me.command, "a????~ b");
}

UNIT_MAIN(UNIT(a_process_is_told_from_its_successor), UNIT(no_free_descriptor_ends_nobody),
	  UNIT(a_command_has_only_printable_ascii))
