/* SPDX-License-Identifier: MIT */
/*
 * Counts instructions, which a busy machine does not change. A child makes the calls and stops
 * itself before and after the counted ones; its parent single-steps it between the stops.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

#define PAIRS 10

/*
 * noinline: all pairs must call from the same place, because the preload remembers a route for each
 * caller.
 */
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

/* The first pairs are not counted: they look up where the calls are passed on to. */
static int be_counted(const struct calls *calls, void *library)
{
	int result = make_pairs(calls);

	if (library)
		result |= dlclose(library);
	kill(getpid(), SIGSTOP);
	result |= make_pairs(calls);
	kill(getpid(), SIGSTOP);
	return result;
}

__attribute__((noreturn)) static void be_stepped(const struct calls *calls, const char *unloaded)
{
	const struct calls *each = calls;
	void *library;
	uint64_t first;
	int result = ptrace(PTRACE_TRACEME, 0, NULL, NULL) || calls->alloc(&first);

	for (; !result && each->name; each++)
		result = be_counted(each, NULL);
	if (!result && unloaded) {
		library = dlopen(unloaded, RTLD_NOW);
		result = !library || be_counted(calls, library);
	}
	_exit(result != 0);
}

/* Return how often the child continued until it stopped itself; -1 if it ended. */
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

/* Step from the stop before the pairs to the stop after them, then continue to the next stop. */
static bool report(pid_t child, const char *what, int pairs, bool is_last)
{
	long count = await_stop(child, PTRACE_SINGLESTEP);

	if (count < 0)
		return false;
	printf("%s %.1f\n", what, (double)count / pairs);
	return is_last || await_stop(child, PTRACE_CONT) >= 0;
}

int calls_step(const struct calls *calls, const char *unloaded)
{
	pid_t child = fork();
	int status;

	if (!child)
		be_stepped(calls, unloaded);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL))
		return 1;
	for (; calls->name; calls++)
		if (!report(child, calls->name, PAIRS, !calls[1].name && !unloaded))
			return 1;
	if (unloaded && !report(child, "unloaded", 1, true))
		return 1;
	return ptrace(PTRACE_CONT, child, NULL, NULL) || waitpid(child, &status, 0) != child ||
	       status;
}
