/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_CHILD_H
#define TESTS_E2E_SCRIPT_CHILD_H
/*
 * child=HOW,COUNT[,stays]: a child executes the next COUNT words. With `stays`, only reap waits for
 * it. HOW is one of:
 *   fork
 *   double              a grandchild whose parent has ended
 *   clone               the raw system call: no fork handlers run
 *   first               as clone, but the child is the first process of a pid namespace
 *   exec, vfork, spawn  the child executes this program again, with those words
 */
#include <sched.h>
#include <spawn.h>

#include "script.h"

#define CHILD_WORDS 64

extern char **environ;
static int child_prefix = 1; /* how many of the program's arguments come before the script */
static int child_gate[2];    /* a pipe that is closed when the grandchild ends */

static void child_words(int count)
{
	script_limit_ms = 0;
	for (int i = 0; i < count && *script_at; i++)
		script_do(*script_at++);
	exit(0);
}

static pid_t child_double(int count)
{
	pid_t child;

	if (pipe2(child_gate, O_CLOEXEC))
		script_stop("pipe2 failed");
	child = fork();
	if (child)
		return child;
	if (fork())
		_exit(0);
	close(child_gate[0]);
	child_words(count);
	return 0;
}

static void child_make_argv(char **out, int count)
{
	int used = 0;

	if (count + child_prefix >= CHILD_WORDS)
		script_stop("child: too many words");
	for (; used < child_prefix; used++)
		out[used] = script_words[used - child_prefix];
	for (int i = 0; i < count && script_at[i]; i++)
		out[used++] = script_at[i];
	out[used] = NULL;
}

static pid_t child_start(const char *how, int count)
{
	char *argv[CHILD_WORDS];
	pid_t child = -1;

	child_make_argv(argv, count);
	if (!strcmp(how, "spawn"))
		return posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ) ? -1
											: child;
	if (!strcmp(how, "vfork")) {
		child = vfork();
		if (!child) {
			execv("/proc/self/exe", argv);
			_exit(127);
		}
		return child;
	}
	if (!strcmp(how, "double"))
		return child_double(count);
	if (!strcmp(how, "clone"))
		child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
	else if (!strcmp(how, "first"))
		child = (pid_t)syscall(SYS_clone, (long)(CLONE_NEWPID | SIGCHLD), 0L, 0L, 0L, 0L);
	else if (!strcmp(how, "fork") || !strcmp(how, "exec"))
		child = fork();
	else
		script_stop("child: no such way");
	if (!child && !strcmp(how, "exec")) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	if (!child)
		child_words(count);
	return child;
}

static void child_say(const char *how, int status)
{
	if (WIFSIGNALED(status))
		printf("child %s: signal %d\n", how, WTERMSIG(status));
	else
		printf("child %s: %d\n", how, WEXITSTATUS(status));
}

VERB(child, 2, 3)
{
	int words = (int)script_number(argument[1]), status = -1;
	pid_t child = child_start(argument[0], words);
	char byte;

	if (child < 0)
		script_stop("child: could not be made");
	while (words-- && *script_at)
		script_at++;
	if (count > 2)
		return;
	if (waitpid(child, &status, 0) != child)
		script_stop("waitpid failed");
	if (!strcmp(argument[0], "double")) {
		close(child_gate[1]);
		while (read(child_gate[0], &byte, 1) > 0)
			;
		close(child_gate[0]);
	}
	child_say(argument[0], status);
}

/* become=COUNT: this process executes the program again, with the next COUNT words */
VERB(become, 1, 1)
{
	char *argv[CHILD_WORDS];

	child_make_argv(argv, (int)script_number(argument[0]));
	execv("/proc/self/exe", argv);
	script_stop("become: exec failed");
}

/* reap: wait for every child that stayed */
VERB(reap, 0, 0)
{
	int status;

	while (waitpid(-1, &status, 0) > 0)
		child_say("reaped", status);
}

#endif
