/* SPDX-License-Identifier: MIT */
#include "os/running_instance.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/clock.h"
#include "protocol.h"

int running_instance_dial(const char *fds_socket, int *out_pid)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct ucred ucred;
	socklen_t size = sizeof(ucred);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", fds_socket);
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof(to)) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) && ucred.uid == geteuid()) {
		*out_pid = ucred.pid;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Whatever it says: it does. */
static bool says_something(int fd, int64_t deadline_ns)
{
	struct fds_header message = {.version = FDS_VERSION, .verb = FDS_CHANGES};
	struct pollfd answer = {.fd = fd, .events = POLLIN};
	int page = -1, status;
	size_t size;

	if (fds_send(fd, &message, NULL, 0, -1) ||
	    poll(&answer, 1, clock_timeout_ms(deadline_ns)) != 1)
		return false;
	status = fds_receive(fd, &message, NULL, 0, &size, &page);
	if (!status)
		fds_close(&page, page >= 0);
	return status != GPUSHARE_E_NO_REGISTRY && status != GPUSHARE_E_TIMED_OUT &&
	       status != GPUSHARE_E_IO;
}

bool running_instance_answers(const char *fds_socket, int64_t deadline_ns)
{
	int pid, fd = running_instance_dial(fds_socket, &pid);
	bool answers = fd >= 0 && says_something(fd, deadline_ns);

	if (fd >= 0)
		close(fd);
	return answers;
}
