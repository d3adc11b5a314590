/* SPDX-License-Identifier: MIT */
/*
 * What nng 1.5.2 asks the kernel, by the linker's --wrap, so that a peer which goes during the
 * greeting holds up nobody. Of EPIPE it makes NNG_ECLOSED, which its listener takes for its own end:
 * it never accepts again (nanomsg/nng#1518). Of an end of file it makes NNG_ECONNSHUT, after which it
 * accepts nobody for 100 ms. ECONNRESET is what it has a way for: on to the next. Connections that are
 * greeted end by any of them. A shared libnng is not reached; probe.c helps there.
 *
 * And of a watcher, who has nothing to say, nng is told of the greeting alone, then of its end: between two
 * parts of a message an end loses an aio (work.c).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "protocol.h"

#define WATCHED_FDS 65536 /* those above are let through */

/* By descriptor: 0, it is no watcher's; else one more than the bytes of greeting that are to come. */
static _Atomic uint8_t greeting_left[WATCHED_FDS];

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_readv(int fd, const struct iovec *parts, int count);
ssize_t __wrap_readv(int fd, const struct iovec *parts, int count);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __real_accept(int fd, struct sockaddr *from, socklen_t *size);
int __wrap_accept(int fd, struct sockaddr *from, socklen_t *size);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t sent = __real_sendmsg(fd, message, flags);

	if (sent < 0 && errno == EPIPE)
		errno = ECONNRESET;
	return sent;
}

/* A listener that was opened anew has another word behind its name. */
static bool is_events(int fd)
{
	struct sockaddr_un at = {.sun_family = AF_UNSPEC};
	socklen_t size = sizeof(at) - 1; /* so that the path ends */
	const char *name;

	if (getsockname(fd, (struct sockaddr *)&at, &size) || at.sun_family != AF_UNIX)
		return false;
	name = strrchr(at.sun_path, '/');
	return name && !strncmp(name + 1, GPUSHARE_EVENTS_SOCKET, strlen(GPUSHARE_EVENTS_SOCKET));
}

static int taken(int fd)
{
	int error = errno;

	if (fd >= 0 && fd < WATCHED_FDS)
		atomic_store(&greeting_left[fd], is_events(fd) ? SP_GREETING_SIZE + 1 : 0);
	errno = error;
	return fd;
}

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
	return taken(__real_accept4(fd, from, size, flags));
}

int __wrap_accept(int fd, struct sockaddr *from, socklen_t *size)
{
	return taken(__real_accept(fd, from, size));
}

/* Whether that was no part of a greeting. */
static bool is_talk(int fd, ssize_t got)
{
	uint8_t left = fd < WATCHED_FDS ? atomic_load(&greeting_left[fd]) : 0;

	if (!left)
		return false;
	if (got >= left)
		return true;
	atomic_store(&greeting_left[fd], (uint8_t)(left - got));
	return false;
}

ssize_t __wrap_readv(int fd, const struct iovec *parts, int count)
{
	ssize_t got = __real_readv(fd, parts, count);

	if (got < 0 || (got && !is_talk(fd, got)))
		return got;
	errno = ECONNRESET;
	return -1;
}
