/* SPDX-License-Identifier: MIT */
#include "replace.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol.h"

void replace_init(struct replace *replace, const char *fds_socket)
{
	*replace = (struct replace){.fds_socket = fds_socket,
				    .fd = -1,
				    .asked = -1,
				    .why = "nobody listens at " GPUSHARE_FDS_SOCKET};
}

void replace_finish(struct replace *replace)
{
	if (replace->fd >= 0)
		close(replace->fd);
	replace->fd = -1;
}

/* -1: nobody listens there, or it is somebody else's. */
static int dial(const char *path, int *out_pid)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct ucred ucred;
	socklen_t size = sizeof(ucred);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof(to)) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) && ucred.uid == geteuid()) {
		*out_pid = ucred.pid;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* One that came after the one who was asked is asked as well: whoever is told to replace does. */
static void ask(struct replace *replace)
{
	struct fds_message message = {.version = FDS_VERSION, .verb = FDS_REPLACE};
	int pid, fd = dial(replace->fds_socket, &pid);

	if (fd < 0)
		return;
	if (pid == replace->asked || fds_send(fd, &message, NULL, 0)) {
		close(fd);
		return;
	}
	replace->fd = fd;
	replace->asked = pid;
	replace->why = "it does not answer";
}

bool replace_ask(struct replace *replace)
{
	struct fds_message answer;
	int fds[FDS_MAX], status;
	size_t count;

	if (replace->fd < 0)
		ask(replace);
	if (replace->fd < 0)
		return true;
	status = fds_receive(replace->fd, &answer, fds, &count);
	if (status == GPUSHARE_E_TIMED_OUT)
		return true; /* no answer so far, or it is about to leave */
	if (status) {
		replace_finish(replace); /* it has gone, or will be asked no more */
		return true;
	}
	fds_close(fds, count);
	replace->why = answer.status ? status_text(answer.status) : "it said that it would";
	return !answer.status;
}
