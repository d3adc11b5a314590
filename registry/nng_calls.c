/* SPDX-License-Identifier: MIT */
/*
 * What nng 1.5.2 asks the kernel, by the linker's --wrap, so that a peer which goes during the
 * greeting holds up nobody. Of EPIPE it makes NNG_ECLOSED, which its listener takes for its own end:
 * it never accepts again (nanomsg/nng#1518). Of an end of file it makes NNG_ECONNSHUT, after which it
 * accepts nobody for 100 ms. ECONNRESET is what it has a way for: on to the next. Connections that are
 * greeted end by any of them. A shared libnng is not reached; probe.c helps there.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_readv(int fd, const struct iovec *parts, int count);
ssize_t __wrap_readv(int fd, const struct iovec *parts, int count);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t sent = __real_sendmsg(fd, message, flags);

	if (sent < 0 && errno == EPIPE)
		errno = ECONNRESET;
	return sent;
}

ssize_t __wrap_readv(int fd, const struct iovec *parts, int count)
{
	ssize_t got = __real_readv(fd, parts, count);

	if (got)
		return got;
	errno = ECONNRESET;
	return -1;
}
