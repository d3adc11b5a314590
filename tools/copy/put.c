/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "base/cleanup.h"
#include "data/layout.h"
#include "data/source.h"
#include "progress.h"

struct into {
	const char *path; /* for messages */
	struct source source;
	struct progress progress;
	int error;  /* errno of a failed read */
	bool ended; /* the file became shorter during the copy */
};

static int into_chunk(void *data, size_t size, void *user)
{
	struct into *into = user;
	ssize_t part = source_read(into->source.fd, data, size);

	if (part < 0)
		into->error = errno;
	else if ((size_t)part < size)
		into->ended = true;
	else
		progress_add(&into->progress, size);
	return part < 0 || (size_t)part < size;
}

/* Copy a pipe's contents to an unnamed temporary file, because put must know their size before it
 * writes to the buffer. Stop once the size exceeds `limit`. */
static bool into_gather(int from, uint64_t limit, struct progress *progress, int *out_fd,
			uint64_t *out_size)
{
	static char room[1 << 20];
	_cleanup_close_ int fd = -1;
	const char *directory = getenv("TMPDIR");
	char path[PATH_MAX];
	uint64_t size = 0;
	ssize_t part;

	directory = directory && *directory ? directory : "/tmp";
	snprintf(path, sizeof(path), "%s/gpushare.XXXXXX", directory);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0 || unlink(path))
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
		progress_add(progress, (uint64_t)part);
	}
	if (lseek(fd, 0, SEEK_SET))
		return false;
	*out_fd = fd;
	*out_size = size;
	fd = -1;
	return true;
}

/* Open standard input, a pipe or a device as raw bytes. If a pipe has more than query.length bytes,
 * source.size is some number above query.length. */
static bool open_stream(const struct copy_request *request, bool standard, struct into *into)
{
	struct source *source = &into->source;
	struct stat there;
	off_t at;
	int gathered;
	bool good;

	source->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			      : open(request->input, O_RDONLY | O_CLOEXEC);
	if (source->fd < 0 || fstat(source->fd, &there))
		return false;
	if (S_ISREG(there.st_mode)) {
		at = lseek(source->fd, 0, SEEK_CUR);
		source->size = (uint64_t)(at > 0 ? at < there.st_size ? there.st_size - at : 0
						 : there.st_size);
		return true;
	}
	progress_begin(&into->progress, 1, 0);
	good = into_gather(source->fd, request->query.length, &into->progress, &gathered,
			   &source->size);
	progress_end(&into->progress);
	if (!good)
		return false;
	close(source->fd);
	source->fd = gathered;
	return true;
}

static bool into_open(const struct copy_request *request, struct into *into)
{
	bool standard = !strcmp(request->input, "-");
	struct stat there;

	into->path = standard ? "standard input" : request->input;
	into->source.fd = -1;
	if (!standard && !stat(request->input, &there) && S_ISREG(there.st_mode))
		return source_open(&into->source, request->input,
				   request->query.format == FORMAT_RAW, true);
	if (open_stream(request, standard, into))
		return true;
	snprintf(into->source.why, sizeof(into->source.why), "%s", strerror(errno));
	return false;
}

static int into_copy(const struct copy_request *request, struct gpushare_buffer *buffer,
		     struct into *into)
{
	uint64_t size = into->source.size;
	int status;

	progress_begin(&into->progress, 1, size);
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

/* Set request->query.length to the size of the range that --offset and --length select, by default
 * the whole buffer. */
static bool find_range(struct copy_request *request, struct gpushare_buffer *buffer,
		       struct gpushare_info *info)
{
	struct query raw = request->query;
	struct layout layout;
	int status = gpushare_buffer_info(buffer, info);

	raw.format = FORMAT_RAW;
	if (status)
		return !tool_failed(status);
	if (!layout_find(&raw, info, &layout))
		return false;
	request->query.length = layout.length;
	return true;
}

/* Whether the array has the dtype and shape of the buffer's tags, which put does not change. */
static bool npy_fits(const struct copy_request *request, const struct gpushare_info *info,
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
	tool_error("'%s' holds %s %s, and '%s' is tagged %s %s; nothing was written",
		   request->input, dtype_traits(npy->dtype)->name, theirs, info->name,
		   dtype_traits(dtype)->name, ours);
	return false;
}

/* Whether the file fits the range. `part`: --offset or --length was given; only then a raw file may
 * be shorter than the range. An array must have exactly the size of the range. */
static bool fits(const struct copy_request *request, bool part, const struct gpushare_info *info,
		 const struct into *into)
{
	const struct source *source = &into->source;
	uint64_t size = source->size, room = request->query.length;

	if (request->query.format == FORMAT_NPY && !source->is_npy)
		tool_error("'%s' is not a .npy file; nothing was written", into->path);
	else if (size > room)
		tool_error("'%s' holds more than the %" PRIu64 " bytes from offset %" PRIu64
			   " of '%s'; nothing was written",
			   into->path, room, request->query.offset, info->name);
	else if (size < room && source->is_npy)
		tool_error("'%s' holds %" PRIu64 " bytes, and there are %" PRIu64
			   " bytes from offset %" PRIu64 " of '%s'; nothing was written",
			   into->path, size, room, request->query.offset, info->name);
	else if (size < room && !part)
		tool_error("'%s' holds %" PRIu64 " bytes, and '%s' has %" PRIu64
			   "; nothing was written: --offset 0 fills only its beginning",
			   into->path, size, info->name, room);
	else /* tags describe the whole buffer, not a part of it */
		return !source->is_npy || room < info->size ||
		       npy_fits(request, info, &source->npy);
	return false;
}

int copy_put(const struct copy_request *request, struct gpushare_buffer *buffer)
{
	bool part = request->query.has_offset || request->query.has_length;
	struct copy_request ranged = *request; /* find_range() sets its query.length */
	struct gpushare_info info;
	struct into into = {.error = 0};
	int code = TOOL_FAILED;

	if (!find_range(&ranged, buffer, &info))
		return TOOL_FAILED;
	if (gpushare_is_read_only(buffer)) {
		tool_error("'%s' is read-only here: its owner lets others only read; nothing was "
			   "written",
			   info.name);
		return TOOL_FAILED;
	}
	if (!into_open(&ranged, &into))
		tool_error("'%s' can't be read: %s", into.path, into.source.why);
	else if (fits(&ranged, part, &info, &into))
		code = into_copy(&ranged, buffer, &into);
	if (into.source.fd >= 0)
		close(into.source.fd);
	return code;
}
