/* SPDX-License-Identifier: MIT */
/* The process that exported a handle, seen from the one that opens it: by pid and start time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "driver_peer.h"

/*
 * Field 22 of /proc/PID/stat; 0 for a process that is gone, or a zombie, which has no memory. The
 * "./" asks the kernel: for a process itself qemu-user answers /proc/PID/stat with a time of its own.
 */
uint64_t peer_start(int pid)
{
	char path[32], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/./stat", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (length <= 0)
		return 0;
	text[length] = '\0';
	const char *at = strrchr(text, ')'); /* a command may hold spaces and brackets */
	if (!at || strlen(at) < 4 || strchr("ZXx", at[2]))
		return 0;
	at += 4; /* field 4 */
	for (int field = 4; field < 22; field++) {
		at = strchr(at, ' ');
		if (!at)
			return 0;
		at++;
	}
	return strtoull(at, NULL, 10);
}

/* A descriptor of our own for the peer's `fd`; -1 with errno. */
int peer_open(int pid, int fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
}
