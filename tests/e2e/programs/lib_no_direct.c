/* SPDX-License-Identifier: MIT */
/* Preloaded: emulates a file system without O_DIRECT. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) =
	    (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	va_list arguments;
	mode_t mode = 0;

	va_start(arguments, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(arguments, mode_t);
	va_end(arguments);
	if (flags & O_DIRECT) {
		errno = EINVAL;
		return -1;
	}
	return real(path, flags, mode);
}
