/* SPDX-License-Identifier: MIT */
/* Which folder the registry's sockets are in, and whether that folder can be trusted. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol.h"

/* The longest path that leaves room for the socket's name. */
#define DIRECTORY_MAX (GPUSHARE_PATH_MAX - sizeof("/" GPUSHARE_SOCKET))

_Static_assert(sizeof(GPUSHARE_FDS_SOCKET) <= sizeof(GPUSHARE_SOCKET), "DIRECTORY_MAX fits both");

__attribute__((format(printf, 4, 5))) static int fail(int status, char *why, size_t why_size,
						      const char *format, ...)
{
	int error = errno;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, why_size, format, arguments);
	va_end(arguments);
	errno = error;
	return status;
}

/* Makes a relative path absolute, so that a later chdir() doesn't matter. Removes slashes at the
 * end, because with one, O_NOFOLLOW would follow a link. */
static int directory_normalise(const char *from, char out_path[GPUSHARE_PATH_MAX])
{
	char here[GPUSHARE_PATH_MAX] = "";
	char path[GPUSHARE_PATH_MAX];
	size_t length;
	int wanted;

	if (*from != '/' && !getcwd(here, sizeof(here)))
		return errno == ERANGE ? GPUSHARE_E_INVALID : status_from_errno(errno);
	wanted = snprintf(path, sizeof(path), "%s%s%s", here, *here ? "/" : "", from);
	if ((size_t)wanted >= sizeof(path))
		return GPUSHARE_E_INVALID;
	length = (size_t)wanted;
	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
	if (length > DIRECTORY_MAX)
		return GPUSHARE_E_INVALID;
	memcpy(out_path, path, length + 1);
	return GPUSHARE_OK;
}

int directory_find(const char *given, char out_path[GPUSHARE_PATH_MAX])
{
	char path[GPUSHARE_PATH_MAX];
	const char *runtime;
	int length;

	if (!given || !*given)
		given = secure_getenv("GPUSHARE_DIR");
	if (given && *given)
		return directory_normalise(given, out_path);

	/* The XDG specification says that a relative path is to be ignored. */
	runtime = secure_getenv("XDG_RUNTIME_DIR");
	if (runtime && *runtime == '/')
		length = snprintf(path, sizeof(path), "%s/gpushare", runtime);
	else
		length = snprintf(path, sizeof(path), "/tmp/gpushare-%u", (unsigned)geteuid());
	if ((size_t)length >= sizeof(path))
		return GPUSHARE_E_INVALID;
	return directory_normalise(path, out_path);
}

#define OWN_EXAMPLE "GPUSHARE_DIR=/tmp/my-buffers"

/* Whether the error message may suggest 'chmod 700' for the directory. It must not for /tmp and
 * system directories, which have other uses. */
static bool directory_may_be_closed(const struct stat *is, const char *path)
{
	static const char *const systems[] = {"/usr/", "/var/", "/etc/", "/dev/", "/boot/"};

	for (size_t i = 0; i < sizeof(systems) / sizeof(*systems); i++)
		if (!strncmp(path, systems[i], strlen(systems[i])))
			return false;
	return !(is->st_mode & S_ISVTX) && strchr(path + 1, '/');
}

/* Checks that the directory belongs to this user and that no other has access. */
static int directory_examine_own(const struct stat *is, const char *path, char *why,
				 size_t why_size)
{
	if (is->st_uid != geteuid())
		return fail(GPUSHARE_E_DENIED, why, why_size,
			    "%s belongs to uid %u, not to uid %u; use a directory of your own, "
			    "such as " OWN_EXAMPLE,
			    path, (unsigned)is->st_uid, (unsigned)geteuid());
	if (!(is->st_mode & 077))
		return GPUSHARE_OK;
	if (directory_may_be_closed(is, path))
		return fail(GPUSHARE_E_DENIED, why, why_size,
			    "%s is open to others (mode %03o); run 'chmod 700 %s'", path,
			    (unsigned)(is->st_mode & 07777), path);
	return fail(
	    GPUSHARE_E_DENIED, why, why_size,
	    "%s is open to others (mode %03o); use a directory of your own, such as " OWN_EXAMPLE,
	    path, (unsigned)(is->st_mode & 07777));
}

/* A user who may write to the directory above could replace this one by a directory of their
 * own. */
int directory_examine_place(int fd, const struct stat *is, const char *path, char *why,
			    size_t why_size)
{
	struct stat above;

	if (!is->st_uid)
		return GPUSHARE_OK;
	if (fstatat(fd, "..", &above, 0))
		return fail(status_from_errno(errno), why, why_size, "can't examine %s/..: %m",
			    path);
	if (!above.st_uid && !(above.st_mode & 022))
		return GPUSHARE_OK;
	return fail(GPUSHARE_E_DENIED, why, why_size,
		    "%s belongs to uid %u, but users other than root may write to the directory "
		    "above it, and so replace it; use a directory below /run",
		    path, (unsigned)is->st_uid);
}

/* Opens the directory. Returns a status; if it isn't OK, `why` is the error message. */
static int directory_look(const char *path, int *out_fd, struct stat *out_is, char *why,
			  size_t why_size)
{
	char clean[GPUSHARE_PATH_MAX];
	int status = directory_normalise(path, clean);

	errno = ENAMETOOLONG;
	*out_fd = status ? -1 : open(clean, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*out_fd >= 0 && !fstat(*out_fd, out_is))
		return GPUSHARE_OK;
	if (*out_fd >= 0) {
		close(*out_fd);
		return fail(status_from_errno(errno), why, why_size, "can't examine %s: %m", path);
	}
	if (errno == ENOENT)
		return fail(GPUSHARE_E_NOT_FOUND, why, why_size, "%s does not exist", path);
	if (errno == ELOOP || errno == ENOTDIR)
		return fail(GPUSHARE_E_DENIED, why, why_size,
			    "%s is not a directory, or is a symbolic link; remove it or set "
			    "GPUSHARE_DIR",
			    path);
	return fail(status ? status : status_from_errno(errno), why, why_size,
		    "can't open %s: %m; use a directory of your own, such as " OWN_EXAMPLE, path);
}

int directory_check(const char *path, struct directory_trust *out_trust, char *why, size_t why_size)
{
	struct stat is = {0};
	int fd, status = directory_look(path, &fd, &is, why, why_size);

	*out_trust = (struct directory_trust){geteuid(), false};
	if (status)
		return status;
	*out_trust = (struct directory_trust){is.st_uid, is.st_mode & DIRECTORY_SYSTEM_MARK &&
							     !(is.st_mode & 022)};
	if (!out_trust->is_system)
		status = directory_examine_own(&is, path, why, why_size);
	else if (is.st_uid != geteuid())
		status = directory_examine_place(fd, &is, path, why, why_size);
	close(fd);
	return status;
}

/* Checks a directory for a registry that serves only this user. */
static int directory_check_own(const char *path, char *why, size_t why_size)
{
	struct directory_trust trust;
	int status = directory_check(path, &trust, why, why_size);

	if (status || !trust.is_system)
		return status;
	return fail(
	    GPUSHARE_E_NO_REGISTRY, why, why_size,
	    "no registry serves %s, a directory for all users; an administrator must start it "
	    "(gpushare-registry --system --dir %s)",
	    path, path);
}

/* mkdir() has failed. Writes the error message, which says if the directory above is missing. */
static int directory_unmade(const char *path, char *why, size_t why_size)
{
	int error = errno, length = (int)(strrchr(path, '/') - path);
	char above[GPUSHARE_PATH_MAX];

	snprintf(above, sizeof(above), "%.*s", length, path);
	if (error == ENOENT && *above && access(above, F_OK))
		return fail(status_from_errno(error), why, why_size,
			    "can't make %s: there is no %s; run 'mkdir -p %s', or use another "
			    "GPUSHARE_DIR",
			    path, above, above);
	errno = error;
	return fail(status_from_errno(error), why, why_size,
		    "can't make %s: %m; use another directory, such as " OWN_EXAMPLE, path);
}

int directory_prepare(const char *path, char *why, size_t why_size)
{
	char socket[GPUSHARE_PATH_MAX];

	if (directory_join(path, GPUSHARE_SOCKET, socket))
		return fail(GPUSHARE_E_INVALID, why, why_size,
			    "%s is too long for a socket address (at most %zu bytes)", path,
			    DIRECTORY_MAX);
	if (mkdir(path, 0700) < 0) {
		if (errno != EEXIST)
			return directory_unmade(path, why, why_size);
		return directory_check_own(path, why, why_size);
	}
	/* The umask may have removed the owner's bits, without which the directory can't be
	 * opened. */
	(void)!fchmodat(AT_FDCWD, path, 0700, AT_SYMLINK_NOFOLLOW);
	return directory_check_own(path, why, why_size);
}

/* Doesn't use snprintf(), which takes 2 KB of stack: this may run on a program's thread with little
 * stack. */
int directory_join(const char *path, const char *file, char out_path[GPUSHARE_PATH_MAX])
{
	if (!path || !*path || strlen(path) > DIRECTORY_MAX)
		return GPUSHARE_E_INVALID;
	stpcpy(stpcpy(stpcpy(out_path, path), "/"), file);
	return GPUSHARE_OK;
}
