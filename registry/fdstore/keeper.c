/* SPDX-License-Identifier: MIT */
#include "fdstore/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "close_from.h"
#include "os/clock.h"
#include "os/closer.h"
#include "os/hash.h"
#include "os/instance.h"
#include "os/log.h"
#include "fdstore/notify.h"

#define BACKLOG 16
/* between two attempts to send, if the user has too many descriptors in flight */
#define AGAIN_MS 20
#define SEND_BUFFER (4 << 20) /* room for a burst of messages; the kernel allows less */
#define SELF "/proc/self/exe"
#define LOOK_MS 400	/* between two checks that the socket's file exists */
#define RESTART_MS 1000 /* until the keeper starts a registry; usually a client starts one sooner */
#define TIDY_MS 10000	/* the same for --tidy; usually a supervisor starts a registry sooner */
#define RESTART_MOST_MS 60000 /* each start doubles the delay of the next one, up to this */
#define STABLE_MS 10000	      /* a registry that was connected this long resets the delay */
#define EXIT_USAGE 2

extern char **environ;

int keeper_connect(const char *directory)
{
	char path[GPUSHARE_PATH_MAX];
	int fd, most = SEND_BUFFER;
	struct ucred peer;

	directory_join(directory, KEEPER_SOCKET, path);
	fd = socket_dial(path, &peer);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
	if (peer.uid == geteuid())
		return fd;
	close(fd);
	return -1;
}

void keeper_end(const char *directory)
{
	char path[GPUSHARE_PATH_MAX];
	struct stat is;

	directory_join(directory, KEEPER_SOCKET, path);
	if (!lstat(path, &is) && S_ISSOCK(is.st_mode) && is.st_uid == geteuid())
		unlink(path);
}

/* Start a child with `input` as its stdin, in a session (setsid()) of its own: a signal to our
 * process group must not reach it. -1: errno. */
static int spawn(const char *program, char *const arguments[], int input)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t with;
	sigset_t none, all;
	pid_t pid;
	int error = posix_spawn_file_actions_init(&files);

	if (error) {
		errno = error;
		return -1;
	}
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&with);
	posix_spawnattr_setsigmask(&with, &none);
	posix_spawnattr_setsigdefault(&with, &all);
	posix_spawnattr_setflags(&with, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
					    POSIX_SPAWN_SETSID);
	error = posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
	if (!error)
		error = posix_spawn(&pid, program, &files, &with, arguments, environ);
	posix_spawnattr_destroy(&with);
	posix_spawn_file_actions_destroy(&files);
	errno = error;
	return error ? -1 : 0;
}

/* Make the keeper's listening socket here, so that we can connect before the keeper runs. */
int keeper_start(const char *directory)
{
	char *const arguments[] = {(char *)"gpushare-registry", (char *)"--keeper", (char *)"--dir",
				   (char *)(uintptr_t)directory, NULL};
	char path[GPUSHARE_PATH_MAX];
	int listener, connection;

	keeper_end(directory);
	directory_join(directory, KEEPER_SOCKET, path);
	listener = socket_listen(path);
	if (listener < 0)
		return -1;
	connection = keeper_connect(directory);
	if (connection >= 0 && spawn(SELF, arguments, listener)) {
		keeper_end(directory);
		close(connection);
		connection = -1;
	}
	close(listener);
	return connection;
}

struct kept {
	UT_hash_handle hh;
	uint64_t number;
	int fd;
};

static struct keeper {
	char path[GPUSHARE_PATH_MAX];
	/* path of the program that this process runs; an upgrade may replace the file */
	char program[PATH_MAX];
	const char *directory;
	struct stat socket; /* our socket's file, to notice if it was removed or replaced */
	struct kept *kept;
	int registry;	  /* the connected registry's socket; -1: none */
	int64_t came_ns;  /* when the last registry connected */
	int64_t start_ns; /* when to start a registry next, at the earliest */
	int64_t delay_ns;
	bool restarts; /* false: start registries only with --tidy */
} keeper = {.registry = -1};

static bool has_name(void)
{
	return is_file(keeper.path, &keeper.socket);
}

/* End the keeper. Also a signal handler. The kernel closes the descriptors. */
static void leave(int number)
{
	(void)number;
	if (has_name())
		unlink(keeper.path);
	_exit(0);
}

static struct kept *find(uint64_t number)
{
	struct kept *kept;

	HASH_FIND(hh, keeper.kept, &number, sizeof(number), kept);
	return kept;
}

static void drop(uint64_t number)
{
	struct kept *kept = find(number);

	if (!kept)
		return;
	HASH_DEL(keeper.kept, kept);
	closer_add(NULL, kept->fd);
	free(kept);
}

static void keep(uint64_t number, int fd)
{
	struct kept *kept = calloc(1, sizeof(*kept));

	drop(number);
	if (kept) {
		kept->number = number;
		kept->fd = fd;
		HASH_ADD(hh, keeper.kept, number, sizeof(number), kept);
	}
	if (kept && kept->hh.tbl)
		return;
	free(kept);
	closer_add(NULL, fd);
}

static bool give_next(uint64_t after)
{
	const struct kept *kept = after ? find(after) : keeper.kept;
	struct pollfd gives_up = {.fd = keeper.registry, .events = POLLIN};
	char message[NOTIFY_MESSAGE];
	size_t size;
	int status;

	if (after && kept)
		kept = kept->hh.next;
	size = notify_write(message, NOTIFY_STORE, kept ? kept->number : 0);
	do {
		status = fds_send_bytes(keeper.registry, message, size, kept ? &kept->fd : NULL,
					kept != NULL);
	} while ((status == GPUSHARE_E_LIMIT || status == GPUSHARE_E_TIMED_OUT) &&
		 poll(&gives_up, 1, AGAIN_MS) == 0);
	return !status;
}

/* Handle one message, which came with `fd` (-1: none). false: the message is invalid, or the answer
 * can't be sent. */
static bool obey(const char *message, int fd)
{
	char verb[NOTIFY_VERB];
	uint64_t number;

	if (!notify_read(message, verb, &number))
		return false;
	if (fd >= 0 && !strcmp(verb, NOTIFY_STORE))
		keep(number, fd);
	else if (fd < 0 && !strcmp(verb, NOTIFY_REMOVE))
		drop(number);
	else
		return fd < 0 && !strcmp(verb, NOTIFY_NEXT) && give_next(number);
	return true;
}

/* Handle all messages that the registry has sent. false: its connection has ended, or must be
 * closed. */
static bool hear(void)
{
	char message[NOTIFY_MESSAGE + 1];
	int fd, status;
	size_t size;

	while (!(status = fds_receive(keeper.registry, NULL, message, sizeof(message) - 1, &size,
				      &fd))) {
		message[size] = '\0';
		if (obey(message, fd))
			continue;
		if (fd >= 0)
			closer_add(NULL, fd);
		return false;
	}
	return status == GPUSHARE_E_TIMED_OUT;
}

static int64_t least_delay_ns(void)
{
	return (keeper.restarts ? RESTART_MS : TIDY_MS) * NS_PER_MS;
}

static void registry_gone(void)
{
	int64_t now = clock_ns();

	close(keeper.registry);
	keeper.registry = -1;
	if (now - keeper.came_ns >= STABLE_MS * NS_PER_MS)
		keeper.delay_ns = least_delay_ns();
	keeper.start_ns = now + keeper.delay_ns;
}

/* Accept the next registry. It was in the backlog until all messages of its predecessor were
 * read. */
static void admit(void)
{
	int fd = accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC);
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid()) {
		close(fd);
		return;
	}
	keeper.registry = fd;
	keeper.came_ns = clock_ns();
}

/* Open the program at our path, which may be an upgrade by now. -1: it can't be opened, or other
 * users could have changed it. */
static int open_program(void)
{
	int fd = open(keeper.program, O_PATH | O_CLOEXEC);
	struct stat is;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &is) && S_ISREG(is.st_mode) && (!is.st_uid || is.st_uid == geteuid()) &&
	    !(is.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	return -1;
}

/* Start a registry if none is connected: without one, the buffers of dead owners and expired
 * buffers stay. If registries end early or never connect, the time until the next start grows. */
static void start_registry(void)
{
	char *const arguments[] = {
	    (char *)"gpushare-registry",
	    (char *)"--dir",
	    (char *)(uintptr_t)keeper.directory,
	    (char *)"--orphan",
	    (char *)(keeper.restarts ? "--idle-exit=" GPUSHARE_IDLE_EXIT_S : "--tidy"),
	    NULL};
	int64_t now = clock_ns(), most = RESTART_MOST_MS * NS_PER_MS;
	char program[32];
	int fd;

	if (keeper.registry >= 0 || now < keeper.start_ns)
		return;
	keeper.delay_ns = keeper.delay_ns * 2 < most ? keeper.delay_ns * 2 : most;
	keeper.start_ns = now + keeper.delay_ns;
	fd = open_program();
	snprintf(program, sizeof(program), "/proc/self/fd/%d", fd);
	if (fd < 0 || spawn(program, arguments, STDERR_FILENO))
		spawn(SELF, arguments, STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static void serve(void)
{
	while (has_name() && (keeper.registry >= 0 || keeper.kept)) {
		bool is_served = keeper.registry >= 0;
		struct pollfd event = {.fd = is_served ? keeper.registry : STDIN_FILENO,
				       .events = POLLIN};

		if (poll(&event, 1, LOOK_MS) == 1 && is_served && !hear())
			registry_gone();
		if (keeper.registry < 0)
			admit();
		start_registry();
	}
}

/* Close all descriptors but the socket, and leave the working directory, so that its file system
 * can be unmounted. */
static void stand_alone(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ssize_t length = readlink(SELF, keeper.program, sizeof(keeper.program) - 1);

	keeper.program[length > 0 ? length : 0] = '\0';
	for (int fd = 1; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	close_from(STDERR_FILENO + 1);
	if (chdir("/"))
		_exit(1);
	prctl(PR_SET_NAME, KEEPER_NAME);
	signal(SIGCHLD, SIG_IGN); /* the keeper doesn't wait for the registries that it starts */
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, leave);
	signal(SIGTERM, leave);
}

int keeper_run(const char *directory)
{
	const char *autostart = getenv("GPUSHARE_AUTOSTART");
	int listens = 0;
	socklen_t size = sizeof(listens);

	if (!directory || getsockopt(STDIN_FILENO, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) ||
	    !listens) {
		log_error("--keeper is only for a registry that starts its keeper");
		return EXIT_USAGE;
	}
	keeper.directory = directory;
	keeper.restarts = !autostart || strcmp(autostart, "0") != 0;
	keeper.delay_ns = least_delay_ns();
	directory_join(directory, KEEPER_SOCKET, keeper.path);
	if (lstat(keeper.path, &keeper.socket))
		return 0; /* our socket was removed: no registry would find us */
	stand_alone();
	/* again, so that SO_PEERCRED reports this process, not the one that made the socket */
	listen(STDIN_FILENO, BACKLOG);
	admit(); /* the registry that started us is first in the backlog */
	serve();
	leave(0);
	return 0;
}
