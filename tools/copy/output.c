/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Numbers of threads in addition to the caller's. A few requests at once keep a disk busy. */
#define DISK_THREADS 3
#define MEMORY_THREADS 7
#define MEMORY_CPUS 4 /* with fewer, write() on tmpfs is faster */

static bool output_fail(struct output *output, int error)
{
	if (!output->error)
		output->error = error;
	return false;
}

/* Create "DIR/.NAME.XXXXXX.partial". NAME is cut to 200 bytes so that the result isn't too long for
 * a file name. `mode`: that of the file to replace; for a new file, 0666 without the umask's
 * bits. */
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
	output->direct = -1;
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

/* Set the file's size, and on a disk allocate its blocks. On tmpfs fallocate() would clear all
 * pages in one thread: compare the free space instead. */
static int set_size(int fd, uint64_t size, const struct statfs *system)
{
	if (system->f_type == TMPFS_MAGIC) {
		if (system->f_blocks &&
		    (uint64_t)system->f_bavail * (uint64_t)system->f_bsize < size)
			return ENOSPC;
		return ftruncate(fd, (off_t)size) ? errno : 0;
	}
	if (!fallocate(fd, 0, 0, (off_t)size) || errno == EOPNOTSUPP || errno == ENOSYS)
		return 0;
	return errno;
}

bool output_reserve(struct output *output, uint64_t size)
{
	int cpus = crew_cpus(), threads = DISK_THREADS, error;
	struct statfs system;
	char path[32];
	void *map;

	if (!*output->partial || size < OUTPUT_LARGE)
		return true;
	if (fstatfs(output->fd, &system))
		return output_fail(output, errno);
	error = set_size(output->fd, size, &system);
	if (error)
		return output_fail(output, error);
	if (system.f_type == TMPFS_MAGIC) {
		if (cpus < MEMORY_CPUS)
			return true;
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, output->fd, 0);
		if (map == MAP_FAILED)
			return true;
		output->map = map;
		output->map_size = size;
		threads = cpus > MEMORY_THREADS ? MEMORY_THREADS : cpus - 1;
	} else {
		/* don't open it by name: another user may have put a link there */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", output->fd);
		output->direct = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
		if (output->direct < 0)
			return true;
	}
	output->crew = crew_new(threads);
	return output->crew || output_fail(output, ENOMEM);
}

static int write_at(int fd, const unsigned char *data, size_t size, uint64_t at)
{
	while (size) {
		ssize_t done = pwrite(fd, data, size, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? errno : EIO;
		data += done;
		size -= (size_t)done;
		at += (uint64_t)done;
	}
	return 0;
}

/* Allocate the pages first: if tmpfs has no room for a page, a store to it would raise SIGBUS. */
static int write_mapped(struct output *output, const unsigned char *data, size_t size, uint64_t at)
{
	uint64_t page = at / OUTPUT_ALIGN * OUTPUT_ALIGN;
	int error = 0;

	if (madvise(output->map + page, size + (size_t)(at - page), MADV_POPULATE_WRITE))
		error = errno;
	if (error == EINVAL) /* before Linux 5.14 */
		error = fallocate(output->fd, 0, (off_t)at, (off_t)size) ? errno : 0;
	if (error)
		return error == EFAULT ? ENOSPC : error;
	memcpy(output->map + at, data, size);
	return 0;
}

/* If a driver mapped `data`, O_DIRECT may fail with EFAULT. Then copy to a bounce buffer. */
static int write_direct(struct output *output, size_t piece, const unsigned char *data, size_t size,
			uint64_t at)
{
	int error;

	if (!output->bounce && (uintptr_t)data % OUTPUT_ALIGN == 0) {
		error = write_at(output->direct, data, size, at);
		if (error != EFAULT)
			return error;
		output->bounce = true;
	}
	if (!output->room[piece])
		output->room[piece] = aligned_alloc(OUTPUT_ALIGN, OUTPUT_PIECE);
	if (!output->room[piece])
		return EINVAL; /* write_piece() then uses the page cache */
	memcpy(output->room[piece], data, size);
	return write_at(output->direct, output->room[piece], size, at);
}

static int write_piece(struct output *output, size_t piece, const unsigned char *data, size_t size,
		       uint64_t at)
{
	size_t whole = at % OUTPUT_ALIGN ? 0 : size / OUTPUT_ALIGN * OUTPUT_ALIGN;
	int error;

	if (output->map)
		return write_mapped(output, data, size, at);
	if (output->cached || !whole)
		return write_at(output->fd, data, size, at);
	error = write_direct(output, piece, data, whole, at);
	if (error == EINVAL) {
		output->cached = true;
		return write_at(output->fd, data, size, at);
	}
	return error ? error : write_at(output->fd, data + whole, size - whole, at + whole);
}

static void write_pieces(void *user, size_t piece)
{
	struct output *output = user;
	size_t from = piece * OUTPUT_PIECE;
	size_t size = output->pending - from < OUTPUT_PIECE ? output->pending - from : OUTPUT_PIECE;
	int none = 0, error;

	if (output->failed)
		return;
	error = write_piece(output, piece, output->data + from, size, output->written + from);
	if (error)
		atomic_compare_exchange_strong(&output->failed, &none, error);
}

bool output_start(struct output *output, const void *data, size_t size)
{
	const unsigned char *at = data;

	if (!output->crew)
		return output_write_plain(output, data, size);
	for (; size > OUTPUT_BLOCK; size -= OUTPUT_BLOCK, at += OUTPUT_BLOCK)
		if (!output_write(output, at, OUTPUT_BLOCK))
			return false;
	output->data = at;
	output->pending = size;
	crew_start(output->crew, write_pieces, output, (size + OUTPUT_PIECE - 1) / OUTPUT_PIECE);
	return true;
}

bool output_wait(struct output *output)
{
	if (output->pending) {
		crew_wait(output->crew);
		if (output->failed)
			output_fail(output, output->failed);
		else
			output->written += output->pending;
		output->pending = 0;
	}
	return !output->error;
}

bool output_write(struct output *output, const void *data, size_t size)
{
	return output_start(output, data, size) && output_wait(output);
}

static bool output_close(struct output *output)
{
	bool bad;

	output_wait(output);
	crew_free(output->crew);
	output->crew = NULL;
	if (output->map)
		munmap(output->map, output->map_size);
	output->map = NULL;
	if (output->direct >= 0)
		close(output->direct);
	output->direct = -1;
	for (size_t i = 0; i < OUTPUT_PIECES; i++) {
		free(output->room[i]);
		output->room[i] = NULL;
	}
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
