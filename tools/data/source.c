/* SPDX-License-Identifier: MIT */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

ssize_t source_read(int fd, void *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t part = read(fd, (char *)data + done, size - done);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -1;
		if (!part)
			break;
		done += (size_t)part;
	}
	return (ssize_t)done;
}

static bool source_fail(struct source *source, const char *why)
{
	snprintf(source->why, sizeof(source->why), "%s", why);
	return false;
}

static bool source_look(struct source *source, int fd, uint64_t file_size, bool raw)
{
	_cleanup_free_ char *head = malloc(NPY_HEADER_MAX);
	ssize_t got = head ? source_read(fd, head, NPY_HEADER_MAX) : -1;

	if (got < 0)
		return source_fail(source, strerror(head ? errno : ENOMEM));
	source->is_npy = !raw && npy_is(head, (size_t)got);
	source->size = file_size;
	if (source->is_npy) {
		if (!npy_parse(head, (size_t)got, &source->npy, source->why))
			return false;
		source->size = source->npy.data_size;
		if (source->size != file_size - source->npy.header_size) {
			snprintf(source->why, sizeof(source->why),
				 "its header describes %" PRIu64 " bytes, but %" PRIu64 " follow",
				 source->size, file_size - source->npy.header_size);
			return false;
		}
	}
	if (lseek(fd, source->is_npy ? (off_t)source->npy.header_size : 0, SEEK_SET) < 0)
		return source_fail(source, strerror(errno));
	return true;
}

bool source_open(struct source *source, const char *path, bool raw, bool follow)
{
	_cleanup_close_ int fd =
	    open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
	struct stat there;

	*source = (struct source){.fd = -1};
	if (fd < 0 && errno == ELOOP && !follow)
		return source_fail(source, "it is a symbolic link, which a set can't contain");
	if (fd < 0 || fstat(fd, &there))
		return source_fail(source, strerror(errno));
	if (S_ISDIR(there.st_mode))
		return source_fail(source, strerror(EISDIR));
	if (!S_ISREG(there.st_mode))
		return source_fail(source, "it is not a regular file");
	if (!source_look(source, fd, (uint64_t)there.st_size, raw))
		return false;
	source->fd = fd;
	fd = -1;
	return true;
}
