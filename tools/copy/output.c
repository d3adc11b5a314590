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

/* Create "DIR/.NAME.XXXXXX.partial". NAME is cut to 200 bytes so that the result isn't too long for a
 * file name. `mode`: that of the file to replace; for a new file, 0666 without the umask's bits. */
static bool output_open_partial(struct output *output, mode_t mode)
{
	const char *slash = strrchr(output->path, '/');
	const char *file = slash ? slash + 1 : output->path;
	int length =
	    snprintf(output->partial, sizeof(output->partial), "%.*s.%.200s.XXXXXX.partial",
		     (int)(file - output->path), output->path, file);

	if (length < 0 || (size_t)length >= sizeof(output->partial))
		errno = ENAMETOOLONG;
	else
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
	output->bulk.direct = -1;
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
		/* If `path` is a symbolic link, replace its target, not the link. */
		if (!realpath(path, resolved))
			return output_fail(output, errno);
		/* rename() would replace even a file that may not be written. */
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

static bool output_write_plain(struct output *output, const void *data, size_t size)
{
	const char *at = data;

	while (size) {
		ssize_t done = write(output->fd, at, size);

		/* A signal that interrupts a blocked write() may make it short instead of
		 * failed. */
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

bool output_reserve(struct output *output, uint64_t size)
{
	int error;

	if (!*output->partial)
		return true;
	error = bulk_begin(&output->bulk, output->fd, size);
	return error ? output_fail(output, error) : true;
}

bool output_start(struct output *output, const void *data, size_t size)
{
	const char *at = data;

	if (output->bulk.way == BULK_NONE)
		return output_write_plain(output, data, size);
	for (; size > BULK_BLOCK; size -= BULK_BLOCK, at += BULK_BLOCK)
		if (!output_start(output, at, BULK_BLOCK) || !output_wait(output))
			return false;
	bulk_start(&output->bulk, at, size, output->written);
	output->pending = size;
	return true;
}

bool output_wait(struct output *output)
{
	int error;

	if (!output->pending)
		return !output->error;
	error = bulk_wait(&output->bulk);
	if (error)
		return output_fail(output, error);
	output->written += output->pending;
	output->pending = 0;
	return true;
}

bool output_write(struct output *output, const void *data, size_t size)
{
	return output_start(output, data, size) && output_wait(output);
}

static bool output_close(struct output *output)
{
	bool bad;

	if (output->pending)
		bulk_wait(&output->bulk);
	output->pending = 0;
	bulk_end(&output->bulk);
	bad = output->opened && close(output->fd);
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

bool output_abandon(struct output *output)
{
	bool removed = *output->partial;

	output_close(output);
	if (removed)
		unlink(output->partial);
	*output->partial = '\0';
	return removed;
}
