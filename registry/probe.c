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

/* nng's own, there in its static archive alone: see nng_wake.c. */
__attribute__((weak)) void __real_nni_cv_wake1(void *condition);

int64_t probe_most_ms(void)
{
	return __real_nni_cv_wake1 ? PROBE_SELDOMEST_MS : PROBE_SELDOM_MS;
}

bool probe_open(struct probe *probe)
{
	*probe = (struct probe){
	    .heard = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	    .fd = -1,
	    .patience = PROBE_PATIENCE,
	};
	return probe->heard >= 0;
}

static void end(struct probe *probe)
{
	if (probe->fd >= 0)
		close(probe->fd);
	probe->fd = -1;
	probe->missed = 0;
}

void probe_close(struct probe *probe)
{
	end(probe);
	close(probe->heard);
}

void probe_hear(const struct probe *probe)
{
	eventfd_write(probe->heard, 1);
}

/* A full backlog says EAGAIN at once: that is a busy listener or a deaf one. False: of that listener
 * there is nothing to be learned. */
static bool dial(struct probe *probe, const char *path, uint16_t protocol)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	uint8_t greeting[SP_GREETING_SIZE];
	eventfd_t ignored;

	probe->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe->fd < 0)
		return false;
	eventfd_read(probe->heard, &ignored);
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	sp_greeting(greeting, protocol);
	if (!connect(probe->fd, (const struct sockaddr *)&to, sizeof(to)))
		return send(probe->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) ==
		       sizeof(greeting);
	close(probe->fd);
	probe->fd = -1;
	return errno == EAGAIN;
}

/* nng's transport greets even when its core no longer takes the connection: only `heard` tells. */
static bool is_heard(const struct probe *probe)
{
	struct pollfd one = {.fd = probe->heard, .events = POLLIN};

	return poll(&one, probe->fd >= 0, PROBE_ANSWER_MS) > 0;
}

bool probe_is_answered(struct probe *probe, const char *path, uint16_t protocol)
{
	if ((probe->fd < 0 && !dial(probe, path, protocol)) || is_heard(probe)) {
		end(probe);
		return true;
	}
	probe->missed += probe->busy ? 1 : PROBE_IDLE_LOOK;
	if (probe->missed < probe->patience)
		return true;
	end(probe);
	if (probe->patience < PROBE_PATIENCE_MOST)
		probe->patience *= 2;
	return false;
}
