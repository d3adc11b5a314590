/* SPDX-License-Identifier: MIT */
/* Preloaded: emulates a file system without O_DIRECT (NO_DIRECT=1) or O_TMPFILE (NO_TMPFILE=1). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>

int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) =
	    (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
	va_list arguments;
	mode_t mode = 0;

	va_start(arguments, flags);
	if ((flags & O_CREAT) || unnamed)
		mode = va_arg(arguments, mode_t);
	va_end(arguments);
	if (((flags & O_DIRECT) && getenv("NO_DIRECT")) || (unnamed && getenv("NO_TMPFILE"))) {
		errno = flags & O_DIRECT ? EINVAL : EOPNOTSUPP;
		return -1;
	}
	return real(path, flags, mode);
}
