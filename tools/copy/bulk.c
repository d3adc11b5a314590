/* SPDX-License-Identifier: MIT */
#include "bulk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Numbers of threads in addition to the caller's. A few requests at once keep a disk busy. */
#define DISK_THREADS 3
#define MEMORY_THREADS 7
#define MEMORY_CPUS 4 /* with fewer, write() on tmpfs is faster */

/* Set the file's size, and on a disk allocate its blocks. On tmpfs fallocate() would clear all
 * pages in one thread: compare the free space instead. */
static int bulk_size(const struct bulk *bulk, const struct statfs *system)
{
	if (system->f_type == TMPFS_MAGIC) {
		if (system->f_blocks &&
		    (uint64_t)system->f_bavail * (uint64_t)system->f_bsize < bulk->size)
			return ENOSPC;
		return ftruncate(bulk->fd, (off_t)bulk->size) ? errno : 0;
	}
	if (!fallocate(bulk->fd, 0, 0, (off_t)bulk->size) || errno == EOPNOTSUPP || errno == ENOSYS)
		return 0;
	return errno;
}

static int bulk_open_direct(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
}

int bulk_begin(struct bulk *bulk, int fd, uint64_t size)
{
	struct statfs system;
	int cpus = crew_cpus(), error, threads;

	*bulk = (struct bulk){.way = BULK_NONE, .fd = fd, .direct = -1, .size = size};
	if (size < BULK_LEAST)
		return 0;
	if (fstatfs(fd, &system))
		return errno;
	error = bulk_size(bulk, &system);
	if (error)
		return error;
	if (system.f_type == TMPFS_MAGIC && cpus < MEMORY_CPUS)
		return 0;
	if (system.f_type == TMPFS_MAGIC) {
		bulk->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (bulk->map == MAP_FAILED)
			bulk->map = NULL;
		else
			bulk->way = BULK_MAPPED;
	} else {
		bulk->direct = bulk_open_direct(fd);
		if (bulk->direct >= 0)
			bulk->way = BULK_DIRECT;
	}
	if (bulk->way == BULK_NONE)
		return 0;
	threads = bulk->way == BULK_MAPPED ? MEMORY_THREADS : DISK_THREADS;
	if (bulk->way == BULK_MAPPED && threads > cpus - 1)
		threads = cpus - 1;
	bulk->crew = crew_new(threads);
	return bulk->crew ? 0 : ENOMEM;
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
static int write_mapped(struct bulk *bulk, const unsigned char *data, size_t size, uint64_t at)
{
	uint64_t page = at / BULK_ALIGN * BULK_ALIGN;
	int error = 0;

	if (madvise(bulk->map + page, size + (size_t)(at - page), MADV_POPULATE_WRITE))
		error = errno;
	if (error == EINVAL) /* before Linux 5.14 */
		error = fallocate(bulk->fd, 0, (off_t)at, (off_t)size) ? errno : 0;
	if (error)
		return error == EFAULT ? ENOSPC : error;
	memcpy(bulk->map + at, data, size);
	return 0;
}

/* If a driver mapped the memory, O_DIRECT may fail with EFAULT. Then copy to a bounce buffer. */
static int write_direct(struct bulk *bulk, size_t piece, const unsigned char *data, size_t size,
			uint64_t at)
{
	int error;

	if (!bulk->bounce && (uintptr_t)data % BULK_ALIGN == 0) {
		error = write_at(bulk->direct, data, size, at);
		if (error != EFAULT)
			return error;
		bulk->bounce = true;
	}
	if (!bulk->room[piece])
		bulk->room[piece] = aligned_alloc(BULK_ALIGN, BULK_PIECE);
	if (!bulk->room[piece])
		return EINVAL; /* write_piece() then uses the page cache */
	memcpy(bulk->room[piece], data, size);
	return write_at(bulk->direct, bulk->room[piece], size, at);
}

static int write_piece(struct bulk *bulk, size_t piece, const unsigned char *data, size_t size,
		       uint64_t at)
{
	size_t whole = at % BULK_ALIGN ? 0 : size / BULK_ALIGN * BULK_ALIGN;
	int error;

	if (bulk->way == BULK_MAPPED)
		return write_mapped(bulk, data, size, at);
	if (bulk->cached || !whole)
		return write_at(bulk->fd, data, size, at);
	error = write_direct(bulk, piece, data, whole, at);
	if (error == EINVAL) {
		bulk->cached = true;
		return write_at(bulk->fd, data, size, at);
	}
	return error ? error : write_at(bulk->fd, data + whole, size - whole, at + whole);
}

static void bulk_work(void *user, size_t piece)
{
	struct bulk *bulk = user;
	size_t from = piece * BULK_PIECE;
	size_t size = bulk->length - from < BULK_PIECE ? bulk->length - from : BULK_PIECE;
	int none = 0, error;

	if (bulk->error)
		return;
	error = write_piece(bulk, piece, bulk->data + from, size, bulk->at + from);
	if (error)
		atomic_compare_exchange_strong(&bulk->error, &none, error);
}

void bulk_start(struct bulk *bulk, const void *data, size_t length, uint64_t at)
{
	bulk->data = data;
	bulk->length = length;
	bulk->at = at;
	crew_start(bulk->crew, bulk_work, bulk, (length + BULK_PIECE - 1) / BULK_PIECE);
}

int bulk_wait(struct bulk *bulk)
{
	crew_wait(bulk->crew);
	return bulk->error;
}

void bulk_end(struct bulk *bulk)
{
	crew_free(bulk->crew);
	bulk->crew = NULL;
	if (bulk->map)
		munmap(bulk->map, bulk->size);
	bulk->map = NULL;
	if (bulk->direct >= 0)
		close(bulk->direct);
	bulk->direct = -1;
	for (size_t i = 0; i < BULK_PIECES; i++) {
		free(bulk->room[i]);
		bulk->room[i] = NULL;
	}
	bulk->way = BULK_NONE;
}
