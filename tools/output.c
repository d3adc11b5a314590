/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool output_fail(struct output *output, int error)
{
	if (!output->error)
		output->error = error;
	return false;
}

/* "DIR/.NAME.XXXXXX.partial"; a NAME that leaves no room for that is cut. */
static bool output_name_partial(struct output *output)
{
	const char *slash = strrchr(output->path, '/');
	const char *file = slash ? slash + 1 : output->path;
	int directory = slash ? (int)(slash + 1 - output->path) : 0;
	int length = snprintf(output->partial, sizeof(output->partial),
			      "%.*s.%.200s.XXXXXX.partial", directory, output->path, file);

	if (length >= 0 && (size_t)length < sizeof(output->partial))
		return true;
	*output->partial = '\0';
	return output_fail(output, ENAMETOOLONG);
}

/* `mode`: of the file that will be replaced, or 0666 less the umask for a new one. */
static bool output_open_partial(struct output *output, mode_t mode)
{
	if (!output_name_partial(output))
		return false;
	output->fd = mkostemps(output->partial, (int)strlen(".partial"), O_CLOEXEC);
	if (output->fd < 0) {
		*output->partial = '\0';
		return output_fail(output, errno);
	}
	output->opened = true;
	if (fchmod(output->fd, mode))
		return output_fail(output, errno);
	return true;
}

static mode_t output_new_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

bool output_open(struct output *output, const char *path, const volatile sig_atomic_t *stop)
{
	char resolved[PATH_MAX];
	struct stat there;

	*output = (struct output){.fd = STDOUT_FILENO, .path = "standard output", .stop = stop};
	if (!path || !strcmp(path, "-"))
		return true;
	output->fd = -1;
	if (strlen(path) >= sizeof(output->path))
		return output_fail(output, ENAMETOOLONG);
	memcpy(output->path, path, strlen(path) + 1);
	if (stat(path, &there)) {
		if (errno != ENOENT)
			return output_fail(output, errno);
		return output_open_partial(output, output_new_mode());
	}
	if (S_ISREG(there.st_mode)) {
		/* The file behind a link is replaced, not the link. */
		if (!realpath(path, resolved))
			return output_fail(output, errno);
		/* Renaming would get around a file that may not be written. */
		if (access(resolved, W_OK))
			return output_fail(output, errno);
		memcpy(output->path, resolved, sizeof(resolved));
		return output_open_partial(output, there.st_mode & 07777);
	}
	output->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (output->fd < 0)
		return output_fail(output, errno);
	output->opened = true;
	return true;
}

bool output_write(struct output *output, const void *data, size_t size)
{
	const char *at = data;

	while (size) {
		ssize_t done = write(output->fd, at, size);

		/* A signal that ends a write that waits may leave it short instead of failed. */
		if (*output->stop && (done < 0 || (size_t)done < size))
			return output_fail(output, EINTR);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return output_fail(output, done ? errno : EIO);
		at += done;
		size -= (size_t)done;
		output->written += (uint64_t)done;
	}
	return true;
}

static bool output_close(struct output *output)
{
	bool bad = output->opened && close(output->fd);

	output->fd = -1;
	output->opened = false;
	return bad ? output_fail(output, errno) : true;
}

bool output_commit(struct output *output)
{
	if (!output_close(output))
		return false;
	if (*output->partial && rename(output->partial, output->path))
		return output_fail(output, errno);
	*output->partial = '\0';
	return true;
}

void output_abandon(struct output *output)
{
	output_close(output);
	if (*output->partial)
		unlink(output->partial);
	*output->partial = '\0';
}
