/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_BULK_H
#define GPUSHARE_TOOLS_BULK_H
/*
 * Write large blocks to a regular file with several threads, while the caller analyses the data. A
 * tmpfs file is mapped, if there are enough CPUs, because write() on tmpfs admits one thread at a
 * time. Other files are written past the page cache (O_DIRECT). io_uring in place of threads is no
 * faster (tools/README.md, "Copying").
 */
#include <stdatomic.h>
#include <stdint.h>

#include "common/crew.h"

#define BULK_LEAST ((uint64_t)16 << 20) /* bytes of the smallest file that is written by threads */
#define BULK_ALIGN 4096			/* bytes, for O_DIRECT */
#define BULK_PIECE ((size_t)1 << 20)	/* bytes that one thread writes at a time */
#define BULK_BLOCK ((size_t)8 << 20)	/* most bytes of one job */
#define BULK_PIECES (BULK_BLOCK / BULK_PIECE)

enum bulk_way {
	BULK_NONE,   /* file too small, too few CPUs, or no O_DIRECT: use write() */
	BULK_MAPPED, /* tmpfs */
	BULK_DIRECT, /* O_DIRECT */
};

struct bulk {
	enum bulk_way way;
	int fd;
	int direct; /* the same file, opened with O_DIRECT; -1: not opened */
	uint64_t size;
	unsigned char *map;
	struct crew *crew;
	const unsigned char *data; /* bytes of the current job */
	size_t length;
	uint64_t at;
	unsigned char *room[BULK_PIECES]; /* bounce buffers: see write_direct() */
	atomic_bool bounce;
	atomic_bool cached; /* O_DIRECT was refused: use the page cache */
	atomic_int error;
};

/* Set the size of the empty file and choose the way. Returns 0 or an errno. If space is too short,
 * most file systems report ENOSPC already here. */
int bulk_begin(struct bulk *bulk, int fd, uint64_t size);
/* Start writing `length` bytes, BULK_BLOCK at most, at offset `at`. `data` must stay unchanged
 * until bulk_wait(), which returns 0 or an errno. */
void bulk_start(struct bulk *bulk, const void *data, size_t length, uint64_t at);
int bulk_wait(struct bulk *bulk);
void bulk_end(struct bulk *bulk);

#endif
