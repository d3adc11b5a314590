/* SPDX-License-Identifier: MIT */
#include "fdstore/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/log.h"

#define PREFIX "gpushare-"
#define FIELD "FDNAME="
#define FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define SAY_S 1

static struct {
	struct sockaddr_un to;
	socklen_t to_size; /* 0: there is no service manager */
	uint64_t store_size;
	/* names of the descriptors that it passed and we haven't taken; NULL: no more */
	const char *next_name;
	int fd, end_fd;
} manager;

/* X(name): environment variables for this process, which its children must not see. */
#define VARIABLES(X) \
	X(NOTIFY_SOCKET) X(FDSTORE) X(LISTEN_PID) X(LISTEN_PIDFDID) X(LISTEN_FDS) X(LISTEN_FDNAMES)

/* FDPOLL=0 keeps the service manager from dropping a descriptor for which poll() reports an error
 * or hang-up. poll() may report that for descriptors of memory. */
size_t notify_write(char to[NOTIFY_MESSAGE], const char *verb, uint64_t number)
{
	return (size_t)snprintf(to, NOTIFY_MESSAGE, "%s\nFDPOLL=0\n" FIELD PREFIX "%" PRIu64, verb,
				number);
}

/* Whether a descriptor's name is one that we gave. It ends with ':', a line feed or NUL. */
static bool name_is_ours(const char *name, uint64_t *out_number)
{
	const char *digits = name + sizeof(PREFIX) - 1;
	size_t length;

	if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0)
		return false;
	length = strspn(digits, "0123456789");
	if (!length || length > 20 || !strchr(":\n", digits[length]))
		return false;
	errno = 0;
	*out_number = strtoull(digits, NULL, 10);
	return !errno;
}

bool notify_read(const char *message, char out_verb[NOTIFY_VERB], uint64_t *out_number)
{
	const char *name = strstr(message, "\n" FIELD);

	return name && sscanf(message, "%31[^\n]", out_verb) == 1 &&
	       name_is_ours(name + sizeof("\n" FIELD) - 1, out_number);
}

static long number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtol(text, NULL, 10) : 0;
}

/* `path` is $NOTIFY_SOCKET. "@name" is an abstract socket. */
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
	manager.next_name = strdup(names ? names : "");
	manager.fd = FIRST_FD;
	manager.end_fd = FIRST_FD + (int)count;
	for (int fd = manager.fd; fd < manager.end_fd; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void notify_init(bool mine)
{
	const char *pid = getenv("SYSTEMD_EXEC_PID");

	/* systemd (since 248) sets this variable to the pid of the process that it starts. If it is
	 * not our pid, we inherited all these variables from that process. */
	if (mine && (!pid || strtol(pid, NULL, 10) == getpid())) {
		find_manager(getenv("NOTIFY_SOCKET"));
		find_descriptors();
	}
#define X(name) unsetenv(#name);
	VARIABLES(X)
#undef X
}

int notify_connect(void)
{
	const struct timeval wait = {.tv_sec = SAY_S};
	int fd;

	errno = ENOENT;
	if (!manager.to_size)
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) &&
	    !connect(fd, (const struct sockaddr *)&manager.to, manager.to_size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void notify_say(const char *word)
{
	int fd = notify_connect();

	if (manager.to_size && (fd < 0 || send(fd, word, strlen(word), MSG_NOSIGNAL) < 0))
		log_line("can't send %s to the service manager: %s", word, strerror(errno));
	if (fd >= 0)
		close(fd);
}

uint64_t notify_store_size(void)
{
	return manager.to_size ? manager.store_size : 0;
}

int notify_take(uint64_t *out_number)
{
	while (manager.fd < manager.end_fd && manager.next_name) {
		const char *name = manager.next_name;
		int fd = manager.fd++;

		manager.next_name = strchr(name, ':');
		if (manager.next_name)
			manager.next_name++;
		if (!name_is_ours(name, out_number) || fcntl(fd, F_GETFD) < 0)
			continue;
		/* $FDSTORE isn't set, but the service manager has stored this descriptor */
		if (!manager.store_size)
			manager.store_size = UINT64_MAX;
		return fd;
	}
	return -1;
}
