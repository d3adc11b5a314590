/* SPDX-License-Identifier: MIT */
/*
 * Counts instructions: the same on a busy machine. A child makes the calls and stops itself before and behind
 * those that are counted; its parent lets it take them one by one.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

#define PAIRS 10

/* Of one copy: a route is remembered by the place that calls. */
__attribute__((noinline)) static int make_pairs(const struct calls *calls)
{
	uint64_t pointer;
	int result = 0;

	for (int i = 0; i < PAIRS; i++) {
		result |= calls->alloc(&pointer);
		result |= calls->release(pointer);
	}
	return result;
}

__attribute__((noreturn)) static void be_stepped(const struct calls *calls)
{
	uint64_t first;
	int result = ptrace(PTRACE_TRACEME, 0, NULL, NULL) || calls->alloc(&first);

	for (; !result && calls->name; calls++) {
		result =
		    make_pairs(calls); /* the first call of each looks up where it goes on to */
		kill(getpid(), SIGSTOP);
		result |= make_pairs(calls);
		kill(getpid(), SIGSTOP);
	}
	_exit(result != 0);
}

/* How often it went on until it stopped itself; -1: it ended. */
static long await_stop(pid_t child, enum __ptrace_request how)
{
	long count = 0;
	int status;

	do {
		if (ptrace(how, child, NULL, NULL) || waitpid(child, &status, 0) != child ||
		    !WIFSTOPPED(status))
			return -1;
		count++;
	} while (WSTOPSIG(status) != SIGSTOP);
	return count;
}

int calls_step(const struct calls *calls)
{
	pid_t child = fork();
	int status;

	if (!child)
		be_stepped(calls);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL))
		return 1;
	while (calls->name) {
		long count = await_stop(child, PTRACE_SINGLESTEP);

		if (count < 0)
			return 1;
		printf("%s %.1f\n", calls->name, (double)count / PAIRS);
		if ((++calls)->name && await_stop(child, PTRACE_CONT) < 0)
			return 1;
	}
	return ptrace(PTRACE_CONT, child, NULL, NULL) || waitpid(child, &status, 0) != child ||
	       status;
}
