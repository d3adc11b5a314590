/* SPDX-License-Identifier: MIT */
#include "os/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static int most = INT_MAX; /* set before there are threads */

void watch_limit(int fd)
{
	most = fd;
}

int watch_open(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

int watch_add(int watches, int32_t pid, uint32_t id)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = id};
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0)
		return -1;
	if (fd <= most && !epoll_ctl(watches, EPOLL_CTL_ADD, fd, &event))
		return fd;
	if (fd > most)
		errno = EMFILE;
	close(fd); /* leaves errno */
	return -1;
}

void watch_remove(int watch)
{
	if (watch >= 0)
		close(watch); /* the only fd of that pidfd: epoll forgets it */
}

bool watch_ended(int watch)
{
	struct pollfd event = {.fd = watch, .events = POLLIN};

	return watch >= 0 && poll(&event, 1, 0) == 1;
}

bool watch_next(int watches, uint32_t *out_id)
{
	struct epoll_event event;

	if (epoll_wait(watches, &event, 1, 0) != 1)
		return false;
	*out_id = event.data.u32;
	return true;
}
