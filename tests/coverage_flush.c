/* SPDX-License-Identifier: MIT */
/*
 * Of `make coverage` alone, linked with -Wl,--wrap=_exit into all that is counted: what leaves by
 * _exit() writes its counts as well. Each library has counts, and so one of these, of its own.
 */
#include <pthread.h>
#include <unistd.h>

void __gcov_dump(void) __attribute__((weak));
void __real__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) __attribute__((noreturn));

static pid_t counted; /* the process whose memory the counts are in */

static void count_here(void)
{
	counted = getpid();
}

__attribute__((constructor)) static void begin(void)
{
	count_here();
	pthread_atfork(NULL, NULL, count_here);
}

/* A child on our memory (autostart's) counts where its parent does, and leaves that to it. */
void __wrap__exit(int code)
{
	if (__gcov_dump && counted == getpid())
		__gcov_dump();
	__real__exit(code);
}
