/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach.h"
#include "base/cleanup.h"
#include "data/layout.h"
#include "data/source.h"
#include "progress.h"

struct into {
	const char *path; /* for messages */
	int fd;
	struct progress progress;
	int error;  /* errno of a failed read */
	bool ended; /* the file became shorter during the copy */
};

static int into_chunk(void *data, size_t size, void *user)
{
	struct into *into = user;
	ssize_t part = source_read(into->fd, data, size);

	if (part < 0)
		into->error = errno;
	else if ((size_t)part < size)
		into->ended = true;
	else
		progress_add(&into->progress, size);
	return part < 0 || (size_t)part < size;
}

/* The size of a pipe's contents is unknown, and it must be known before anything is written. So
 * copy the contents to an unnamed temporary file; stop once they exceed `limit`. */
static bool into_gather(int from, uint64_t limit, int *out_fd, uint64_t *out_size)
{
	static char room[1 << 20];
	_cleanup_close_ int fd = -1;
	const char *directory = getenv("TMPDIR");
	uint64_t size = 0;
	ssize_t part;

	fd = open(directory && *directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC,
		  0600);
	if (fd < 0)
		return false;
	while (size <= limit && (part = source_read(from, room, sizeof(room))) != 0) {
		if (part < 0)
			return false;
		for (ssize_t done = 0, wrote; done < part; done += wrote) {
			wrote = write(fd, room + done, (size_t)(part - done));
			if (wrote < 0 && errno != EINTR)
				return false;
			if (wrote < 0)
				wrote = 0;
		}
		size += (uint64_t)part;
	}
	if (lseek(fd, 0, SEEK_SET))
		return false;
	*out_fd = fd;
	*out_size = size;
	fd = -1;
	return true;
}

/* Open the source. *out_size: the bytes that it holds; if a pipe holds more than
 * request->query.length,
 * some number above that. */
static bool into_open(const struct attach_request *request, struct into *into, uint64_t *out_size)
{
	bool standard = !strcmp(request->into, "-");
	struct stat there;
	off_t at;
	int gathered;

	into->path = standard ? "standard input" : request->into;
	into->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			    : open(request->into, O_RDONLY | O_CLOEXEC);
	if (into->fd < 0 || fstat(into->fd, &there))
		return false;
	if (S_ISREG(there.st_mode)) {
		at = lseek(into->fd, 0, SEEK_CUR);
		*out_size = at > 0 ? (uint64_t)(there.st_size > at ? there.st_size - at : 0)
				   : (uint64_t)there.st_size;
		return true;
	}
	if (!into_gather(into->fd, request->query.length, &gathered, out_size))
		return false;
	close(into->fd);
	into->fd = gathered;
	return true;
}

static int into_copy(const struct attach_request *request, struct gpushare_buffer *buffer,
		     struct into *into, uint64_t size)
{
	int status;

	progress_begin(&into->progress, size);
	status = gpushare_write(buffer, request->query.offset, size, into_chunk, into);
	progress_end(&into->progress);
	if (into->error)
		tool_error("reading '%s' failed: %s; '%s' may hold a part of it", into->path,
			   strerror(into->error), request->query.name);
	else if (into->ended)
		tool_error("'%s' became shorter while it was read; '%s' may hold a part of it",
			   into->path, request->query.name);
	else if (status)
		return tool_failed(status);
	return status ? TOOL_FAILED : TOOL_DONE;
}

static bool may_write(const struct attach_request *request, const struct gpushare_buffer *buffer)
{
	if (!gpushare_is_read_only(buffer))
		return true;
	tool_error("'%s' is read-only here: its owner lets others read alone; nothing was "
		   "written",
		   request->query.name);
	return false;
}

/* Set request->query.length to the size of the range that --offset and --length select, by default the
 * whole buffer. */
static bool find_range(struct attach_request *request, struct gpushare_buffer *buffer)
{
	struct gpushare_info info;
	struct layout layout;
	int status = gpushare_buffer_info(buffer, &info);

	if (status) {
		tool_failed(status);
		return false;
	}
	if (!layout_find(&request->query, &info, &layout))
		return false;
	request->query.length = layout.length;
	return true;
}

int attach_into(const struct attach_request *wanted, struct gpushare_buffer *buffer)
{
	struct attach_request request = *wanted;
	struct into into = {.fd = -1};
	uint64_t size = 0;
	int code = TOOL_FAILED;

	if (!find_range(&request, buffer) || !may_write(&request, buffer))
		return TOOL_FAILED;
	if (!into_open(&request, &into, &size))
		tool_error("'%s' can't be read: %s", into.path, strerror(errno));
	else if (size > request.query.length)
		tool_error("'%s' holds more than the %" PRIu64 " bytes from offset %" PRIu64
			   " of '%s'; nothing was written",
			   into.path, request.query.length, request.query.offset,
			   request.query.name);
	else if (size < request.query.length && !wanted->query.has_offset &&
		 !wanted->query.has_length)
		tool_error("'%s' holds %" PRIu64 " bytes, and '%s' has %" PRIu64
			   "; nothing was written: --offset 0 fills its beginning alone",
			   into.path, size, request.query.name, request.query.length);
	else
		code = into_copy(&request, buffer, &into, size);
	if (into.fd >= 0)
		close(into.fd);
	return code;
}

/* --in does not change tags: the array must have the dtype and shape that the tags say. */
static bool npy_fits(const struct attach_request *request, const struct gpushare_info *info,
		     const struct npy *npy)
{
	struct shape shape = npy->shape;
	enum dtype dtype = npy->dtype;
	char ours[SHAPE_TEXT_MAX], theirs[SHAPE_TEXT_MAX];
	bool tagged;

	if (!layout_read_tags(info, &dtype, &shape, &tagged))
		return false;
	if (dtype == npy->dtype && shape_equal(&shape, &npy->shape))
		return true;
	shape_text(&shape, ours);
	shape_text(&npy->shape, theirs);
	tool_error("'%s' holds %s %s, and '%s' is tagged %s %s; nothing was written", request->in,
		   dtype_traits(npy->dtype)->name, theirs, info->name, dtype_traits(dtype)->name,
		   ours);
	return false;
}

static int npy_copy(struct attach_request *request, struct gpushare_buffer *buffer,
		    const struct source *source)
{
	struct into into = {.path = request->in, .fd = source->fd};
	struct gpushare_info info;
	int status = gpushare_buffer_info(buffer, &info);

	if (status)
		return tool_failed(status);
	if (!source->is_npy) {
		tool_error("'%s' is no .npy file; --into takes any", request->in);
		return TOOL_FAILED;
	}
	/* Tags describe the whole buffer, not a part of it. */
	if (!request->query.offset && !request->query.has_length &&
	    !npy_fits(request, &info, &source->npy))
		return TOOL_FAILED;
	if (source->size != request->query.length) {
		tool_error("'%s' holds %" PRIu64 " bytes, and there are %" PRIu64
			   " from offset %" PRIu64 " of '%s'; nothing was written",
			   request->in, source->size, request->query.length, request->query.offset,
			   request->query.name);
		return TOOL_FAILED;
	}
	return into_copy(request, buffer, &into, source->size);
}

int attach_npy(const struct attach_request *wanted, struct gpushare_buffer *buffer)
{
	struct attach_request request = *wanted;
	struct source source;
	int code;

	if (!find_range(&request, buffer) || !may_write(&request, buffer))
		return TOOL_FAILED;
	if (!source_open(&source, request.in, false, true)) {
		tool_error("'%s' can't be read: %s", request.in, source.why);
		return TOOL_FAILED;
	}
	code = npy_copy(&request, buffer, &source);
	close(source.fd);
	return code;
}
