/* SPDX-License-Identifier: MIT */
#include "os/replace.h"

#include <unistd.h>

#include "os/running_instance.h"
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

/* One that came after the one who was asked is asked as well: whoever is told to replace does. */
static void ask(struct replace *replace)
{
	struct fds_header message = {.version = FDS_VERSION, .verb = FDS_REPLACE};
	int pid, fd = running_instance_dial(replace->fds_socket, &pid);

	if (fd < 0)
		return;
	if (pid == replace->asked || fds_send(fd, &message, NULL, 0, -1)) {
		close(fd);
		return;
	}
	replace->fd = fd;
	replace->asked = pid;
	replace->why = "it does not answer";
}

bool replace_ask(struct replace *replace)
{
	struct fds_header answer;
	int unasked = -1, status;
	size_t size;

	if (replace->fd < 0)
		ask(replace);
	if (replace->fd < 0)
		return true;
	status = fds_receive(replace->fd, &answer, NULL, 0, &size, &unasked);
	if (status == GPUSHARE_E_TIMED_OUT)
		return true; /* no answer so far, or it is about to leave */
	if (status) {
		replace_finish(replace); /* it has gone, or will be asked no more */
		return true;
	}
	fds_close(&unasked, unasked >= 0);
	replace->why = answer.status ? status_text(answer.status) : "it said that it would";
	return !answer.status;
}
