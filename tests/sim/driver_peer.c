/* SPDX-License-Identifier: MIT */
/* Access to the process that exported a handle. It is identified by pid and start time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "driver_peer.h"

/*
 * Return the start time, field 22 of /proc/PID/stat. 0: the process has ended, or is a zombie,
 * which has no memory. The "./" makes the kernel answer: qemu-user emulates a process's own
 * /proc/PID/stat, with another start time.
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
	const char *at = strrchr(text, ')'); /* the command name may contain spaces and brackets */
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

/* Open the peer's file descriptor `fd` again in this process. -1 with errno. */
int peer_open(int pid, int fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
}
