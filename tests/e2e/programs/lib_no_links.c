/* SPDX-License-Identifier: MIT */
/* Preloaded: emulates a file system without hard links. Only a call with flags, which names an
 * O_TMPFILE file, succeeds. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int linkat(int from_at, const char *from, int to_at,
						  const char *to, int flags)
{
	if (flags)
		return (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
	errno = EPERM;
	return -1;
}
