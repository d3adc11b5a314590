/* SPDX-License-Identifier: MIT */
#include "os/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/process.h"
#include "os/log.h"

#define INSTANCE_LOCK "registry.lock"
#define INSTANCE_WAIT_MS 2000 /* until a daemon that has the lock listens, or has exited */
#define REPLACE_WAIT_MS 5000  /* until a daemon that was asked to exit has done so */
#define INSTANCE_RETRY_MS 5
#define BACKLOG 128

static bool is_system;
static uint32_t only_gid = IDENTITY_NO_GROUP; /* IDENTITY_NO_GROUP: everybody */

void socket_access_set(bool for_system, uint32_t gid)
{
	is_system = for_system;
	only_gid = gid;
}

static bool is_for_group(void)
{
	return only_gid != IDENTITY_NO_GROUP;
}

/* chmod() would follow a symbolic link, but `path` is none: only this user can write to the folder.
 * Set the group before the mode, so that no other group ever has access. */
bool socket_access_open(const char *path)
{
	if (!is_system)
		return true;
	return (!is_for_group() || !lchown(path, (uid_t)-1, only_gid)) &&
	       !chmod(path, is_for_group() ? 0660 : 0666);
}

static int open_socket(const char *path, struct sockaddr_un *out_address)
{
	*out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(out_address->sun_path, sizeof(out_address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Set the mode before bind(), so that the socket is never open to others. */
int socket_listen(const char *path)
{
	struct sockaddr_un at;
	int fd = open_socket(path, &at);

	if (fd >= 0 && !fchmod(fd, 0600) && !bind(fd, (const struct sockaddr *)&at, sizeof(at)) &&
	    !listen(fd, BACKLOG))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int socket_dial(const char *path, struct ucred *out_peer)
{
	struct sockaddr_un to;
	int fd = open_socket(path, &to);
	socklen_t size = sizeof(*out_peer);

	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof(to)) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out_peer, &size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Make or take over the folder of a registry for all users, and mark it. On failure, `why` is the
 * error message. */
static int prepare_system(const char *path, char *why, size_t why_size)
{
	bool made = !mkdir(path, 0700) || errno == EEXIST;
	int fd = made ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat is;
	bool opened = fd >= 0 && !fstat(fd, &is);
	int status;

	if (opened && (is.st_uid != geteuid() || is.st_mode & 022)) {
		status = GPUSHARE_E_DENIED;
		snprintf(why, why_size,
			 "%s belongs to uid %u and has mode %03o; it must belong to uid %u, and "
			 "nobody else may write to it",
			 path, is.st_uid, is.st_mode & 0777, geteuid());
	} else if (!opened || (is_for_group() && fchown(fd, (uid_t)-1, only_gid)) ||
		   fchmod(fd, DIRECTORY_SYSTEM_MARK | (is_for_group() ? 0750 : 0755))) {
		status = status_from_errno(errno);
		snprintf(why, why_size, "can't open %s to other users: %s", path, strerror(errno));
	} else {
		status = directory_examine_place(fd, &is, path, why, why_size);
	}
	if (fd >= 0)
		close(fd);
	return status;
}

/* What we know of the daemon that listens at fds.sock. */
struct running {
	int asked;	 /* pid of the daemon that was asked last; 0: none */
	const char *why; /* why that daemon has not exited, for the error message */
};

bool is_file(const char *path, const struct stat *file)
{
	struct stat is;

	if (lstat(path, &is))
		return errno != ENOENT && errno != ENOTDIR;
	return is.st_ino == file->st_ino && is.st_dev == file->st_dev;
}

static int say_served(const struct instance *instance, const struct running *running, bool replace)
{
	char who[32] = "";

	if (running->asked)
		snprintf(who, sizeof(who), " (pid %d)", running->asked);
	if (replace)
		log_error(
		    "the registry%s that serves %s does not exit (%s); end it with 'kill', or "
		    "with 'kill -KILL' if it hangs",
		    who, instance->directory, running->why);
	else
		log_error("a registry%s already serves %s", who, instance->directory);
	return INSTANCE_SERVED;
}

enum running_state { FREE, LEAVES, STAYS };

/* Ask the daemon that listens at `fds_socket` to exit or, without `replace`, whether it serves.
 * Don't ask the same daemon twice; but another one may have started since. Waits for the answer
 * until `until_ns`. */
static enum running_state ask(struct running *running, const char *fds_socket, bool replace,
			      int64_t until_ns)
{
	struct fds_header message = {.version = FDS_VERSION,
				     .verb = replace ? FDS_REPLACE : FDS_CHANGES};
	int fd, unasked = -1, status = GPUSHARE_E_TIMED_OUT;
	struct ucred peer;
	size_t size;

	fd = socket_dial(fds_socket, &peer);
	if (fd < 0)
		return errno == EAGAIN ? LEAVES : FREE;
	if (peer.uid != geteuid() || peer.pid == running->asked ||
	    fds_send(fd, &message, NULL, 0, -1)) {
		close(fd);
		return LEAVES;
	}
	running->asked = peer.pid;
	running->why = "it does not answer";
	if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, clock_timeout_ms(until_ns)) == 1)
		status = fds_receive(fd, &message, NULL, 0, &size, &unasked);
	close(fd);
	if (status) /* E_NO_REGISTRY, E_IO: the daemon has ended, or is about to */
		return replace || status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_IO
			   ? LEAVES
			   : STAYS;
	fds_close(&unasked, unasked >= 0);
	running->why = message.status ? status_text(message.status) : "it agreed to exit";
	return replace && !message.status ? LEAVES : STAYS;
}

/*
 * Takes the lock once no other daemon listens. A daemon that has the lock but no socket will listen
 * soon, or is about to exit. A killed daemon has lock and socket until the kernel has ended its
 * last thread, but does not answer. If a daemon listens without the lock, its lock file was
 * removed.
 */
static int take_lock(const struct instance *instance, struct running *running, bool replace)
{
	char holder[16];
	int length;
	int64_t until_ns = clock_ns() + (replace ? REPLACE_WAIT_MS : INSTANCE_WAIT_MS) * NS_PER_MS;

	for (;;) {
		bool locked = !flock(instance->lock, LOCK_EX | LOCK_NB);
		enum running_state is = LEAVES;

		if (!locked && errno != EWOULDBLOCK) {
			log_error("can't lock %s: %s", instance->lock_path, strerror(errno));
			return GPUSHARE_E_IO;
		}
		if (locked || replace || !access(instance->socket, F_OK))
			is = ask(running, instance->fds_socket, replace, until_ns);
		if (locked && is == FREE)
			break;
		if (clock_ns() >= until_ns || is == STAYS)
			return say_served(instance, running, replace);
		poll(NULL, 0, INSTANCE_RETRY_MS);
	}
	length = snprintf(holder, sizeof(holder), "%d\n", getpid());
	if (ftruncate(instance->lock, 0) ||
	    pwrite(instance->lock, holder, (size_t)length, 0) != length)
		log_line("can't write the pid to %s: %s", INSTANCE_LOCK, strerror(errno));
	return GPUSHARE_OK;
}

static int open_and_lock(struct instance *instance, bool replace)
{
	struct running running = {.why = "nobody listens at " GPUSHARE_FDS_SOCKET};
	struct stat held;
	int status;

	do {
		if (instance->lock >= 0) /* the lock file was removed while we waited */
			close(instance->lock);
		instance->lock =
		    open(instance->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (instance->lock < 0) {
			log_error("can't open %s: %s", instance->lock_path, strerror(errno));
			return status_from_errno(errno);
		}
		status = take_lock(instance, &running, replace);
	} while (!status && (fstat(instance->lock, &held) || !is_file(instance->lock_path, &held)));
	return status;
}

/* Removes `path` only if it is a socket: any other file isn't the registry's. */
static int remove_stale(const char *path)
{
	struct stat is;

	if (lstat(path, &is) < 0)
		return GPUSHARE_OK;
	if (!S_ISSOCK(is.st_mode)) {
		log_error("%s exists and is not a socket; remove it", path);
		return GPUSHARE_E_EXISTS;
	}
	if (unlink(path) < 0) {
		log_error("can't remove %s: %s", path, strerror(errno));
		return status_from_errno(errno);
	}
	return GPUSHARE_OK;
}

int instance_open(struct instance *instance, const char *given, enum instance_access access,
		  bool replace)
{
	char why[512];
	int status;

	*instance = (struct instance){.lock = -1};
	status = directory_find(given || access != INSTANCE_SYSTEM ? given : SYSTEM_DIRECTORY,
				instance->directory);
	if (status) {
		log_error(
		    "the directory's path is too long for a socket; choose a shorter one with "
		    "--dir");
		return status;
	}
	if (access == INSTANCE_SYSTEM)
		status = prepare_system(instance->directory, why, sizeof(why));
	else if (access == INSTANCE_USER)
		status = directory_prepare(instance->directory, why, sizeof(why));
	if (status) {
		log_error("%s", why);
		return status;
	}
	directory_join(instance->directory, GPUSHARE_SOCKET, instance->socket);
	directory_join(instance->directory, GPUSHARE_FDS_SOCKET, instance->fds_socket);
	snprintf(instance->lock_path, sizeof(instance->lock_path), "%s/" INSTANCE_LOCK,
		 instance->directory);
	status = open_and_lock(instance, replace);
	if (!status)
		status = remove_stale(instance->socket);
	if (!status)
		status = remove_stale(instance->fds_socket);
	if (status && instance->lock >= 0) {
		close(instance->lock);
		instance->lock = -1;
	}
	return status;
}

bool instance_is_lost(const struct instance *instance)
{
	return !is_file(instance->socket, &instance->listens);
}

void instance_clear(const struct instance *instance)
{
	if (instance_is_lost(instance))
		return; /* the files at these paths may be another daemon's */
	unlink(instance->socket);
	unlink(instance->fds_socket);
}
