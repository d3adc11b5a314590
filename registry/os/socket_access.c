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

/* Only this user can write to the folder, so `path` is not a symbolic link. The group is set before
 * the mode, so that no other group ever has access. */
bool socket_access_open(const char *path)
{
	if (!is_system)
		return true;
	return (!is_for_group() || !lchown(path, (uid_t)-1, only_gid)) &&
	       !chmod(path, is_for_group() ? 0660 : 0666);
}

int socket_access_listen(const char *path, int type)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;
	bool bound;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	/* The mode is set before bind(), so that the socket is never open to others. */
	bound = fd >= 0 && !fchmod(fd, 0600) && !bind(fd, (const struct sockaddr *)&at, sizeof(at));
	if (bound && !listen(fd, BACKLOG) && socket_access_open(path))
		return fd;
	error = errno;
	if (bound)
		unlink(path);
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

int socket_access_prepare(const char *path, char *why, size_t why_size)
{
	bool made = !mkdir(path, 0700) || errno == EEXIST;
	int fd = made ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	int status = GPUSHARE_OK;
	struct stat is;
	bool opened = fd >= 0 && !fstat(fd, &is);

	if (opened && (is.st_uid != geteuid() || is.st_mode & 022)) {
		snprintf(why, why_size,
			 "%s belongs to uid %u and has mode %03o; it must belong to uid %u, and "
			 "nobody else may write to it",
			 path, is.st_uid, is.st_mode & 0777, geteuid());
		close(fd);
		return GPUSHARE_E_DENIED;
	}
	if (!opened || (is_for_group() && fchown(fd, (uid_t)-1, only_gid)) ||
	    fchmod(fd, DIRECTORY_SYSTEM_MARK | (is_for_group() ? 0750 : 0755)))
		status = status_from_errno(errno);
	if (status)
		snprintf(why, why_size, "can't open %s to other users: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return status ? status : directory_check_place(path, why, why_size);
}
