/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_PROTOCOL_CLOSE_FROM_H
#define GPUSHARE_PROTOCOL_CLOSE_FROM_H
/* Closes all descriptors from a number on, in a child that is about to call exec(). */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_FROM_MOST (1u << 20) /* bound for a process without a limit */

/* Calls the kernel directly. Before Linux 5.9, which added close_range(), closes one by one, up to
 * the hard limit: the soft limit may have been lowered since the descriptors were opened. */
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
