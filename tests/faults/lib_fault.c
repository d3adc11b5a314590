// SPDX-License-Identifier: MIT
/*
 * Preloaded before everything else. It makes one call of the objects under test fail, or replaces
 * one answer that they get. See fault_site.h for how the call is chosen, fault_calls.h and
 * fault_answers.h for how it fails, fault_left.h for the report at the end. Calls from other
 * objects pass through.
 */
#include <sys/prctl.h>

#include "fault_answers.h"
#include "fault_left.h"

#define HERE __builtin_return_address(0)
#define BEHIND(name) \
	static __typeof__(name) *real; \
	if (!real) \
	*(void **)&real = site_behind(#name)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *old);

/* Set errno for a failing call. `error` 0: the call reports its error by its result. */
static void fail_by(const char *how, int error)
{
	if (error)
		errno = how[0] == 'e' ? atoi(how + 1) : error;
}

#define C(type, name, parameters, arguments, bad, error) \
	type name parameters \
	{ \
		BEHIND(name); \
		const char *how = site_due(#name, HERE); \
		if (!how) \
			return real arguments; \
		fail_by(how, error); \
		return bad; \
	}
FAULT_CALLS(C)
#undef C

#define C(type, name, parameters, arguments, bad, error) \
	type name parameters \
	{ \
		BEHIND(name); \
		const char *how = site_due(#name, HERE); \
		if (how && !strcmp(how, "short")) \
			size = size / 2; \
		else if (how) { \
			fail_by(how, error); \
			return bad; \
		} \
		return real arguments; \
	}
FAULT_MOVES(C)
#undef C

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	BEHIND(send);
	char name[32];
	const char *ask = answer_site(name, data, size), *how = ask ? site_due(ask, HERE) : NULL;

	if (how && !answer_begin(fd, how, (const unsigned char *)data + SP_HEADER_SIZE))
		return (ssize_t)size;
	if (how) {
		ssize_t sent = real(fd, data, size, flags);

		if (!strcmp(how, "lost"))
			answer_lose(fd);
		return sent;
	}
	how = site_due("send", HERE);
	if (how && strcmp(how, "short") != 0)
		return fail_by(how, EPIPE), -1;
	return real(fd, data, how ? (size + 1) / 2 : size, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
	BEHIND(recv);
	const char *how;

	if (fd == answer.fd)
		return answer_take(data, size, flags);
	if (fd == answer.deaf)
		return answer_deaf();
	how = site_due("recv", HERE);
	if (how && strcmp(how, "short") != 0)
		return fail_by(how, ECONNRESET), -1;
	return real(fd, data, how ? (size + 1) / 2 : size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	BEHIND(sendmsg);
	int verb = answer_fds_verb(message);
	char name[32];
	const char *how;

	snprintf(name, sizeof(name), "fds.%d", verb);
	how = verb ? site_due(name, HERE) : NULL;
	if (how && !answer_fds_begin(fd, how, message))
		return (ssize_t)message->msg_iov[0].iov_len;
	if (how) {
		ssize_t sent = real(fd, message, flags);

		if (!strcmp(how, "lost"))
			answer_lose(fd);
		return sent;
	}
	how = site_due("sendmsg", HERE);
	if (how)
		return fail_by(how, EPIPE), -1;
	return real(fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	BEHIND(recvmsg);
	const char *how;

	if (fd == answer.fd)
		return answer_fds_take(message);
	if (fd == answer.deaf)
		return answer_deaf();
	how = site_due("recvmsg", HERE);
	if (how)
		return fail_by(how, ECONNRESET), -1;
	return real(fd, message, flags);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	BEHIND(poll);
	const char *how = site_due("poll", HERE);

	if (how)
		return fail_by(how, ENOMEM), -1;
	if (count == 1 && fds[0].fd >= 0 && fds[0].fd == answer.deaf) {
		real(NULL, 0, timeout);
		if (answer.late)
			answer.deaf = -1;
		return 0;
	}
	if (count == 1 && fds[0].fd >= 0 && fds[0].fd == answer.fd) {
		fds[0].revents = fds[0].events & (POLLIN | POLLOUT);
		return fds[0].revents != 0;
	}
	return real(fds, count, timeout);
}

/* Linux closes the descriptor even if close() fails. */
int close(int fd)
{
	BEHIND(close);
	const char *how = site_due("close", HERE);

	if (fd == answer.fd)
		answer.fd = -1;
	if (fd == answer.deaf)
		answer.deaf = -1;
	if (!how)
		return real(fd);
	real(fd);
	fail_by(how, EIO);
	return -1;
}

int fclose(FILE *stream)
{
	BEHIND(fclose);
	const char *how = site_due("fclose", HERE);

	if (!how)
		return real(stream);
	real(stream);
	fail_by(how, ENOSPC);
	return EOF;
}

static mode_t mode_of(int flags, va_list arguments)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define O(name, parameters, arguments) \
	int name parameters \
	{ \
		BEHIND(name); \
		const char *how = site_due(#name, HERE); \
		va_list rest; \
		mode_t mode; \
		if (how) \
			return fail_by(how, EMFILE), -1; \
		va_start(rest, flags); \
		mode = mode_of(flags, rest); \
		va_end(rest); \
		return real arguments; \
	}
O(open, (const char *path, int flags, ...), (path, flags, mode))
O(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
#undef O

int fcntl(int fd, int command, ...)
{
	BEHIND(fcntl);
	const char *how = site_due("fcntl", HERE);
	va_list arguments;
	void *argument;

	if (how)
		return fail_by(how, EMFILE), -1;
	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return real(fd, command, argument);
}

/* cppcheck-suppress syntaxError */
long syscall(long number, ...)
{
	BEHIND(syscall);
	/* site_append() makes these calls itself; and the clock never fails */
	bool other = number == SYS_openat || number == SYS_write || number == SYS_clock_gettime;
	const char *how = other ? NULL : site_due("syscall", HERE);
	long one[6];
	va_list arguments;

	if (how)
		return fail_by(how, ENOSYS), -1;
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		one[i] = va_arg(arguments, long);
	va_end(arguments);
	return real(number, one[0], one[1], one[2], one[3], one[4], one[5]);
}

int prctl(int option, ...)
{
	BEHIND(prctl);
	const char *how = site_due("prctl", HERE);
	unsigned long one[4];
	va_list arguments;

	if (how)
		return fail_by(how, EINVAL), -1;
	va_start(arguments, option);
	for (int i = 0; i < 4; i++)
		one[i] = va_arg(arguments, unsigned long);
	va_end(arguments);
	return real(option, one[0], one[1], one[2], one[3]);
}

int asprintf(char **out, const char *format, ...)
{
	const char *how = site_due("asprintf", HERE);
	va_list words;
	int length;

	if (how)
		return fail_by(how, ENOMEM), -1;
	va_start(words, format);
	length = vasprintf(out, format, words);
	va_end(words);
	return length;
}

int clone(int (*work)(void *), void *stack, int flags, void *argument, ...)
{
	BEHIND(clone);
	const char *how = site_due("clone", HERE);

	if (how)
		return fail_by(how, EAGAIN), -1;
	return real(work, stack, flags, argument);
}

pid_t waitpid(pid_t pid, int *status, int flags)
{
	BEHIND(waitpid);
	const char *how = site_due("waitpid", HERE);

	if (how)
		return fail_by(how, ECHILD), -1;
	return real(pid, status, flags);
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
	BEHIND(execve);
	const char *how = site_due("execve", HERE);

	if (how)
		return fail_by(how, ENOENT), -1;
	return real(path, arguments, environment);
}

void *dlopen(const char *path, int mode)
{
	BEHIND(dlopen);

	return site_due("dlopen", HERE) ? NULL : real(path, mode);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	BEHIND(mmap);
	const char *how = site_due("mmap", HERE);
	void *made;

	if (how)
		return fail_by(how, ENOMEM), MAP_FAILED;
	made = real(at, size, protection, flags, fd, offset);
	if (made != MAP_FAILED)
		left_add('m', made, HERE);
	return made;
}

int munmap(void *at, size_t size)
{
	BEHIND(munmap);
	const char *how = site_due("munmap", HERE);

	if (how)
		return fail_by(how, ENOMEM), -1;
	left_drop('m', at);
	return real(at, size);
}

static void *made(void *piece, const void *caller)
{
	left_add('h', piece, caller);
	return piece;
}

static bool no_memory(const char *call, const void *caller)
{
	const char *how = site_due(call, caller);

	if (how)
		errno = ENOMEM;
	return how;
}

void *malloc(size_t size)
{
	return no_memory("malloc", HERE) ? NULL : made(__libc_malloc(size), HERE);
}

void *calloc(size_t count, size_t size)
{
	return no_memory("calloc", HERE) ? NULL : made(__libc_calloc(count, size), HERE);
}

void *realloc(void *old, size_t size)
{
	void *piece;

	if (no_memory("realloc", HERE))
		return NULL;
	left_drop('h', old);
	piece = made(__libc_realloc(old, size), HERE);
	return piece;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return no_memory("aligned_alloc", HERE) ? NULL
						: made(__libc_memalign(alignment, size), HERE);
}

void free(void *old)
{
	left_drop('h', old);
	__libc_free(old);
}

char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = no_memory("strdup", HERE) ? NULL : made(__libc_malloc(size), HERE);

	return copy ? memcpy(copy, text, size) : NULL;
}

/* The simulated driver calls this when a CUDA call enters it (tests/sim/driver_faults.c). */
bool gpushare_sim_fails(const char *call, const void *caller);
__attribute__((visibility("default"))) bool gpushare_sim_fails(const char *call, const void *caller)
{
	return site_due(call, caller);
}
