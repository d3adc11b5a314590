/* SPDX-License-Identifier: MIT */
#include "persist/keeper_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/fdnames.h"
#include "persist/keeper.h"
#include "os/log.h"

#define ANSWER_MS 1000
#define RETRY_MS 5
#define SEND_BUFFER (4 << 20)	 /* of what comes at once; the kernel gives less */
#define PROGRAM "/proc/self/exe" /* and not a path, where another version may be by now */

extern char **environ;

void keeper_link_init(struct keeper_link *link, const char *directory)
{
	*link = (struct keeper_link){.fd = -1};
	snprintf(link->directory, sizeof(link->directory), "%s", directory);
}

static void address_of(const struct keeper_link *link, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(out->sun_path, sizeof(out->sun_path), "%s/" KEEPER_SOCKET, link->directory);
}

/* No link that leads elsewhere, nobody else's socket; else errno: ENOENT, there is none. */
static bool is_our_socket(const char *path)
{
	struct stat is;

	if (lstat(path, &is))
		return false;
	if (S_ISSOCK(is.st_mode) && is.st_uid == geteuid())
		return true;
	log_line("%s is no socket of this user's", path);
	errno = EEXIST;
	return false;
}

/* Where others wait to be taken, for a second. */
static bool connect_in_time(int fd, const struct sockaddr_un *to)
{
	int64_t deadline = clock_ns() + ANSWER_MS * NS_PER_MS;

	while (connect(fd, (const struct sockaddr *)to, sizeof(*to))) {
		if (errno != EAGAIN || clock_ns() > deadline)
			return false;
		poll(NULL, 0, RETRY_MS);
	}
	return true;
}

bool keeper_link_find(struct keeper_link *link)
{
	struct sockaddr_un to;
	struct ucred ucred;
	socklen_t size = sizeof(ucred);
	int fd;

	address_of(link, &to);
	if (!is_our_socket(to.sun_path))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	if (connect_in_time(fd, &to) && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) &&
	    ucred.uid == geteuid()) {
		link->fd = fd;
		return true;
	}
	close(fd);
	return false;
}

/* The socket is there before the keeper is, so that nobody comes too early. What a keeper that was
 * killed left is removed; one that only hangs ends when it sees its name gone. */
static int make_listener(const struct keeper_link *link)
{
	struct sockaddr_un at;
	int fd, error;
	bool bound;

	address_of(link, &at);
	if (is_our_socket(at.sun_path))
		unlink(at.sun_path);
	else if (errno != ENOENT)
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bound = fd >= 0 && !fchmod(fd, 0600) && !bind(fd, (const struct sockaddr *)&at, sizeof(at));
	if (bound && !listen(fd, KEEPER_BACKLOG))
		return fd;
	error = errno;
	if (bound)
		unlink(at.sun_path);
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

/* Nobody is there to listen. */
static void drop_listener(const struct keeper_link *link, int listener)
{
	struct sockaddr_un at;

	address_of(link, &at);
	if (listener >= 0)
		unlink(at.sun_path);
}

/* In a session of its own from its first moment on: what ends our group does not end it. */
static int spawn_with(struct keeper_link *link, posix_spawn_file_actions_t *files,
		      posix_spawnattr_t *with, const int from[2])
{
	char *const arguments[] = {(char *)"gpushare-registry", (char *)"--keeper", (char *)"--dir",
				   link->directory, NULL};
	sigset_t none;
	int error;

	sigemptyset(&none);
	error = posix_spawn_file_actions_adddup2(files, from[0], KEEPER_FIRST_FD);
	if (!error)
		error = posix_spawn_file_actions_adddup2(files, from[1], KEEPER_LISTENER_FD);
	if (!error)
		error = posix_spawnattr_setsigmask(with, &none);
	if (!error)
		error = posix_spawnattr_setflags(with, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	return error ? error
		     : posix_spawn(&link->starting, PROGRAM, files, with, arguments, environ);
}

static int spawn(struct keeper_link *link, int connection, int listener)
{
	/* out of the way of the numbers that they are to have */
	int from[] = {fcntl(connection, F_DUPFD_CLOEXEC, KEEPER_LISTENER_FD + 1),
		      fcntl(listener, F_DUPFD_CLOEXEC, KEEPER_LISTENER_FD + 1)};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t with;
	int error = posix_spawn_file_actions_init(&files);

	if (!error) {
		error = posix_spawnattr_init(&with);
		if (!error) {
			error = spawn_with(link, &files, &with, from);
			posix_spawnattr_destroy(&with);
		}
		posix_spawn_file_actions_destroy(&files);
	}
	fds_close(from, 2);
	if (error)
		link->starting = 0;
	return error;
}

/* It ended soon after it was started; whoever asks next finds it. */
static void reap(struct keeper_link *link)
{
	if (link->starting && waitpid(link->starting, NULL, WNOHANG) != 0)
		link->starting = 0;
}

bool keeper_link_start(struct keeper_link *link)
{
	int pair[2] = {-1, -1}, listener, error, most = SEND_BUFFER;

	reap(link);
	listener = make_listener(link);
	error = listener < 0 ? errno : 0;
	if (!error && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		error = errno;
	if (!error)
		error = spawn(link, pair[1], listener);
	if (listener >= 0)
		close(listener);
	if (pair[1] >= 0)
		close(pair[1]);
	if (error) {
		drop_listener(link, listener);
		if (!link->said)
			log_line("can't start a keeper in %s: %s", link->directory,
				 strerror(error));
		link->said = true;
		if (pair[0] >= 0)
			close(pair[0]);
		return false;
	}
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
	link->fd = pair[0];
	link->said = false;
	return true;
}

/* Without names and descriptors. */
static int say(const struct keeper_link *link, const char *verb)
{
	char message[FDNAMES_MESSAGE];
	size_t size = fdnames_write(message, verb, NULL, 0);

	return fds_send_bytes(link->fd, message, size, NULL, 0);
}

static int take(struct keeper_link *link, uint64_t out_generations[FDS_MAX], int out_fds[FDS_MAX])
{
	struct pollfd answer = {.fd = link->fd, .events = POLLIN};
	char message[FDNAMES_MESSAGE + 1];
	size_t size, count;
	int named;

	if (say(link, FDNAMES_TAKE) || poll(&answer, 1, ANSWER_MS) != 1 ||
	    fds_receive_bytes(link->fd, message, sizeof(message) - 1, &size, out_fds, &count))
		return -1;
	message[size] = '\0';
	named = fdnames_read(message, out_generations);
	if (named >= 0 && (size_t)named == count)
		return named;
	fds_close(out_fds, count);
	return -1;
}

int keeper_link_take(struct keeper_link *link, uint64_t out_generations[FDS_MAX],
		     int out_fds[FDS_MAX])
{
	int count = take(link, out_generations, out_fds);

	if (count < 0)
		log_line("the keeper of %s does not answer", link->directory);
	return count;
}

bool keeper_link_lives(struct keeper_link *link)
{
	struct pollfd event = {.fd = link->fd, .events = POLLIN};

	reap(link);
	return poll(&event, 1, 0) != 1;
}

void keeper_link_dismiss(struct keeper_link *link)
{
	struct pollfd room = {.fd = link->fd, .events = POLLOUT};

	if (link->fd >= 0 && say(link, FDNAMES_STOPPING) == GPUSHARE_E_TIMED_OUT &&
	    (poll(&room, 1, ANSWER_MS) != 1 || say(link, FDNAMES_STOPPING)))
		keeper_link_abandon(link);
	keeper_link_close(link);
}

void keeper_link_abandon(struct keeper_link *link)
{
	struct sockaddr_un at;

	address_of(link, &at);
	if (is_our_socket(at.sun_path))
		unlink(at.sun_path);
	keeper_link_close(link);
}

void keeper_link_close(struct keeper_link *link)
{
	reap(link);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}
