/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_PROTOCOL_CLOSE_FROM_H
#define GPUSHARE_PROTOCOL_CLOSE_FROM_H
/* Closes all descriptors from a number on, in a process that becomes a registry or a keeper. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_FROM_MOST (1u << 20) /* where to stop if RLIMIT_NOFILE is unlimited */

/*
 * Calls the kernel directly: a child of a client still shares the program's memory, so another
 * library's close() must not run there. Linux before 5.9 has no close_range(), so descriptors are
 * closed one by one, up to the hard limit: the soft limit may have been lowered since they were
 * opened.
 */
static inline void close_from(unsigned int first)
{
	struct rlimit files = {.rlim_max = CLOSE_FROM_MOST};

	if (!syscall(SYS_close_range, first, ~0U, 0))
		return;
	getrlimit(RLIMIT_NOFILE, &files);
	for (rlim_t fd = first; fd < files.rlim_max && fd < CLOSE_FROM_MOST; fd++)
		syscall(SYS_close, (int)fd);
}

#endif
