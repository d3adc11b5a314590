/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol.h"

/* nng's transport greets even when its core no longer takes the connection: only `heard` tells. */
static bool is_heard(int fd, uint16_t protocol, int heard)
{
	struct pollfd one = {.fd = heard, .events = POLLIN};
	uint8_t greeting[SP_GREETING_SIZE];
	eventfd_t ignored;

	eventfd_read(heard, &ignored);
	sp_greeting(greeting, protocol);
	if (send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting))
		return true; /* no word on the listener */
	return poll(&one, 1, PROBE_ANSWER_MS) > 0;
}

bool probe_is_answered(const char *path, uint16_t protocol, int heard)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool answered = true;

	if (fd < 0)
		return true;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	/* A full backlog says EAGAIN at once: that is a busy listener or a deaf one. */
	if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		answered = is_heard(fd, protocol, heard);
	else if (errno == EAGAIN)
		answered = false;
	close(fd);
	return answered;
}
