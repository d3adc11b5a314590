/* SPDX-License-Identifier: MIT */
/* A file system where no file has two names: of one without a name so far a link is made. */
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
