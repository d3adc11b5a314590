/* SPDX-License-Identifier: MIT */
#include "scarce.h"

#include "unit.h"

#include "faults/fault_calls.h"

static _Thread_local struct {
	unsigned int left; /* 0: none fails */
	const char *what;  /* NULL: none has */
} scarce;

void scarce_begin(unsigned int nth)
{
	scarce.what = NULL;
	scarce.left = nth;
}

bool scarce_end(void)
{
	scarce.left = 0;
	return scarce.what != NULL;
}

const char *scarce_what(void)
{
	return scarce.what;
}

bool scarce_goes_on(unsigned int nth)
{
	assert_true(nth < 1000);
	return nth == 1 || scarce.what;
}

static bool fails(const char *what, int error)
{
	if (!scarce.left || --scarce.left)
		return false;
	scarce.what = what;
	if (error)
		errno = error;
	return true;
}

/* Weak: other tests have this object, and no use for it. */
#define C(type, name, parameters, arguments, bad, error) \
	type __real_##name parameters __attribute__((weak)); \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		return fails(#name, error) ? bad : __real_##name arguments; \
	}
FAULT_CALLS(C)
FAULT_MOVES(C)
FAULT_TALKS(C)
FAULT_MEMORY(C)
#undef C

/* Those with a list of arguments of any length. */
int __real_open(const char *path, int flags, ...) __attribute__((weak));
int __real_openat(int at, const char *path, int flags, ...) __attribute__((weak));
int __real_fcntl(int fd, int command, ...) __attribute__((weak));
int __wrap_open(const char *path, int flags, unsigned int mode);
int __wrap_openat(int at, const char *path, int flags, unsigned int mode);
int __wrap_fcntl(int fd, int command, void *argument);

int __wrap_open(const char *path, int flags, unsigned int mode)
{
	return fails("open", EMFILE) ? -1 : __real_open(path, flags, mode);
}

int __wrap_openat(int at, const char *path, int flags, unsigned int mode)
{
	return fails("openat", EMFILE) ? -1 : __real_openat(at, path, flags, mode);
}

int __wrap_fcntl(int fd, int command, void *argument)
{
	return fails("fcntl", EMFILE) ? -1 : __real_fcntl(fd, command, argument);
}
