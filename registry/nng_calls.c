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
 *
 * sockets.c is told what passes here, and knows by that who is too slow.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol.h"
#include "sockets.h"

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_readv(int fd, const struct iovec *parts, int count);
ssize_t __wrap_readv(int fd, const struct iovec *parts, int count);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __real_accept(int fd, struct sockaddr *from, socklen_t *size);
int __wrap_accept(int fd, struct sockaddr *from, socklen_t *size);
int __real_close(int fd);
int __wrap_close(int fd);

static size_t size_of(const struct msghdr *message)
{
	size_t size = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		size += message->msg_iov[i].iov_len;
	return size;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t sent = __real_sendmsg(fd, message, flags);
	int error = errno;

	if (sent >= 0 || error == EAGAIN)
		sockets_told(fd, sent == (ssize_t)size_of(message));
	errno = sent < 0 && error == EPIPE ? ECONNRESET : error;
	return sent;
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* A listener that was opened anew has another word behind its name. -1: it is none of nng's. */
static int kind_of(int fd)
{
	struct sockaddr_un at = {.sun_family = AF_UNSPEC};
	socklen_t size = sizeof(at) - 1; /* so that the path ends */
	const char *name;

	if (getsockname(fd, (struct sockaddr *)&at, &size) || at.sun_family != AF_UNIX)
		return -1;
	name = strrchr(at.sun_path, '/');
	if (!name)
		return -1;
	return begins(name + 1, GPUSHARE_SOCKET) ? SOCKET_ASKS : -1;
}

/* Of one whose user has too many nng is told that it went before it was taken. The probe is our own. */
static int taken(int fd)
{
	struct ucred ucred = {0};
	socklen_t size = sizeof(ucred);
	int error = errno, kind;

	if (fd < 0)
		return fd;
	kind = kind_of(fd);
	if (kind >= 0 && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) &&
	    ucred.pid != getpid() && !sockets_enter(fd, kind, ucred.uid)) {
		__real_close(fd);
		errno = ECONNABORTED;
		return -1;
	}
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

int __wrap_close(int fd)
{
	sockets_leave(fd);
	return __real_close(fd);
}

/* Whether all of it was for nng. */
static bool hear(int fd, const struct iovec *parts, int count, size_t got)
{
	bool welcome = true;

	for (int i = 0; i < count && got; i++) {
		size_t size = parts[i].iov_len < got ? parts[i].iov_len : got;

		welcome &= sockets_heard(fd, parts[i].iov_base, size);
		got -= size;
	}
	return welcome;
}

ssize_t __wrap_readv(int fd, const struct iovec *parts, int count)
{
	ssize_t got = __real_readv(fd, parts, count);

	if (got < 0 || (got && hear(fd, parts, count, (size_t)got)))
		return got;
	errno = ECONNRESET;
	return -1;
}
