/* SPDX-License-Identifier: MIT */
#include "os/socket_access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/identity.h"
#include "protocol.h"

#define BACKLOG 128

static struct {
	bool is_system;
	uint32_t gid;
} door = {.gid = IDENTITY_NO_GROUP};

void socket_access_set(bool is_system, uint32_t gid)
{
	door.is_system = is_system;
	door.gid = gid;
}

static bool is_for_group(void)
{
	return door.gid != IDENTITY_NO_GROUP;
}

unsigned int socket_access_mode(void)
{
	if (!door.is_system)
		return 0600;
	return is_for_group() ? 0660 : 0666;
}

/* In a directory that only we write to nobody puts a link there. The group comes first: never open to
 * another one. */
bool socket_access_open(const char *path)
{
	if (!door.is_system)
		return true;
	return (!is_for_group() || !lchown(path, (uid_t)-1, door.gid)) &&
	       !chmod(path, socket_access_mode());
}

int socket_access_listen(const char *path, int type)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;
	bool bound;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	/* The mode before the name: never open to others, not for a moment. */
	bound = fd >= 0 && !fchmod(fd, 0600) && !bind(fd, (const struct sockaddr *)&at, sizeof(at));
	if (bound && !listen(fd, BACKLOG) && socket_access_open(path))
		return fd;
	error = errno; /* which is the caller's to say */
	if (bound)
		unlink(path);
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

static int fail(int fd, const char *path, const char *what, char *why, size_t why_size)
{
	int error = errno;

	snprintf(why, why_size, "can't %s %s: %s", what, path, strerror(error));
	if (fd >= 0)
		close(fd);
	return status_from_errno(error);
}

static int take(int fd, const char *path, char *why, size_t why_size)
{
	struct stat is;

	if (fstat(fd, &is))
		return fail(fd, path, "examine", why, why_size);
	if (is.st_uid != geteuid() || is.st_mode & 022) {
		snprintf(why, why_size,
			 "%s belongs to uid %u and has mode %03o; it must be uid %u's, and nobody "
			 "else may write there",
			 path, is.st_uid, is.st_mode & 0777, geteuid());
		close(fd);
		return GPUSHARE_E_DENIED;
	}
	if (is_for_group() && fchown(fd, (uid_t)-1, door.gid))
		return fail(fd, path, "give the group", why, why_size);
	if (fchmod(fd, DIRECTORY_SYSTEM_MARK | (is_for_group() ? 0750 : 0755)))
		return fail(fd, path, "open", why, why_size);
	close(fd);
	return GPUSHARE_OK;
}

int socket_access_prepare(const char *path, char *why, size_t why_size)
{
	int fd, status;

	if (mkdir(path, 0700) && errno != EEXIST)
		return fail(-1, path, "make", why, why_size);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail(-1, path, "open", why, why_size);
	status = take(fd, path, why, why_size);
	return status ? status : directory_check_place(path, why, why_size);
}
