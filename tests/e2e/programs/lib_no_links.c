/* SPDX-License-Identifier: MIT */
/* Preloaded: emulates a file system without hard links. */
#include <errno.h>
#include <unistd.h>

__attribute__((visibility("default"))) int linkat(int from_at, const char *from, int to_at,
						  const char *to, int flags)
{
	(void)from_at;
	(void)from;
	(void)to_at;
	(void)to;
	(void)flags;
	errno = EPERM;
	return -1;
}
