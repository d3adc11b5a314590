/* SPDX-License-Identifier: MIT */
#include "persist/notify.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/fdnames.h"
#include "os/log.h"
#include "protocol.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define SAY_MS 1000
#define SAY_RETRY_MS 5

static struct {
	struct sockaddr_un to;
	socklen_t to_size; /* 0: no service manager */
	uint64_t store_size;
	char *names; /* of what it gave us */
	const char *next_name;
	int fd, end_fd;
} manager;

/* X(name): what is meant for one process and not for what it starts. */
#define VARIABLES(X) \
	X(NOTIFY_SOCKET) X(FDSTORE) X(LISTEN_PID) X(LISTEN_PIDFDID) X(LISTEN_FDS) X(LISTEN_FDNAMES)

static long number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtol(text, NULL, 10) : 0;
}

/* "@name" is an abstract one. */
static void find_manager(const char *path)
{
	size_t length = path ? strlen(path) : 0;

	if (length < 2 || (*path != '/' && *path != '@'))
		return;
	if (length >= sizeof(manager.to.sun_path)) {
		log_line("NOTIFY_SOCKET is too long for a socket");
		return;
	}
	manager.to.sun_family = AF_UNIX;
	memcpy(manager.to.sun_path, path, length);
	manager.to_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	if (*path == '@')
		manager.to.sun_path[0] = '\0';
	manager.store_size = (uint64_t)number_of("FDSTORE");
}

static void find_descriptors(void)
{
	const char *names = getenv("LISTEN_FDNAMES");
	long count = number_of("LISTEN_FDS");

	if (number_of("LISTEN_PID") != getpid() || count <= 0 || count > 1 << 20)
		return;
	manager.names = strdup(names ? names : "");
	manager.next_name = manager.names;
	manager.fd = FIRST_FD;
	manager.end_fd = FIRST_FD + (int)count;
	for (int fd = manager.fd; fd < manager.end_fd; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* systemd names the process that it started itself (since 248): a child of its is another one. */
static bool is_ours(void)
{
	const char *pid = getenv("SYSTEMD_EXEC_PID");

	return !pid || strtol(pid, NULL, 10) == getpid();
}

void notify_init(bool mine)
{
	if (mine && is_ours()) {
		find_manager(getenv("NOTIFY_SOCKET"));
		find_descriptors();
	}
#define X(name) unsetenv(#name);
	VARIABLES(X)
#undef X
}

int notify_send(const char *message, size_t size, const int *fds, size_t count)
{
	int fd, status;

	if (!manager.to_size)
		return GPUSHARE_E_NO_REGISTRY;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return GPUSHARE_E_LIMIT;
	if (connect(fd, (const struct sockaddr *)&manager.to, manager.to_size))
		status = GPUSHARE_E_IO;
	else
		status = fds_send_bytes(fd, message, size, fds, count);
	close(fd);
	return status;
}

void notify_say(const char *word)
{
	int64_t deadline = clock_ns() + SAY_MS * NS_PER_MS;
	int status;

	while ((status = notify_send(word, strlen(word), NULL, 0)) == GPUSHARE_E_TIMED_OUT &&
	       clock_ns() < deadline)
		poll(NULL, 0, SAY_RETRY_MS);
	if (status && manager.to_size)
		log_line("can't tell the service manager %s: %s", word, status_text(status));
}

uint64_t notify_store_size(void)
{
	return manager.to_size ? manager.store_size : 0;
}

int notify_take(uint64_t *out_generation)
{
	while (manager.fd < manager.end_fd && manager.next_name) {
		const char *name = manager.next_name;
		int fd = manager.fd++;

		manager.next_name = strchr(name, ':');
		if (manager.next_name)
			manager.next_name++;
		if (!fdnames_is_ours(name, out_generation) || fcntl(fd, F_GETFD) < 0)
			continue;
		if (!manager.store_size) /* it doesn't say how many, but it did keep this one */
			manager.store_size = UINT64_MAX;
		return fd;
	}
	free(manager.names);
	manager.names = NULL;
	manager.next_name = NULL;
	return -1;
}
