/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_BULK_H
#define GPUSHARE_TOOLS_BULK_H
/*
 * Large blocks into a regular file, by several threads at once, while the caller looks at them. A
 * tmpfs file is mapped and stored to, where there are CPUs for it: its own write() lets one thread
 * in. Other files are written
 * past the page cache where the file system allows that; where it does not, through it.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "crew.h"

#define BULK_LEAST ((uint64_t)16 << 20) /* bytes from which on threads are worth starting */
#define BULK_ALIGN 4096			/* of what may go past the page cache */
#define BULK_PIECE ((size_t)1 << 20)	/* that one thread takes */
#define BULK_BLOCK ((size_t)8 << 20)	/* pieces of one job are of this at most */
#define BULK_PIECES (BULK_BLOCK / BULK_PIECE)

enum bulk_way {
	BULK_NONE,   /* too small, or of too few CPUs: use write() */
	BULK_MAPPED, /* tmpfs */
	BULK_DIRECT, /* O_DIRECT */
	BULK_CACHED, /* through the page cache */
};

struct bulk {
	enum bulk_way way;
	int fd;
	int direct; /* the same file with O_DIRECT */
	uint64_t size;
	unsigned char *map;
	struct crew *crew;
	const unsigned char *data; /* the job */
	size_t length;
	uint64_t at;
	unsigned char *room[BULK_PIECES]; /* for memory that the disk can't read from itself */
	atomic_bool bounce;
	atomic_bool cached; /* O_DIRECT was refused after all */
	atomic_int error;
};

/* Give the empty file its size and choose the way; 0 or an errno. ENOSPC comes here, not halfway,
 * where the file system can tell. */
int bulk_begin(struct bulk *bulk, int fd, uint64_t size);
/* `length` bytes, BULK_BLOCK at most, to offset `at`. The data stays until bulk_wait(), which answers
 * 0 or an errno. */
void bulk_start(struct bulk *bulk, const void *data, size_t length, uint64_t at);
int bulk_wait(struct bulk *bulk);
void bulk_end(struct bulk *bulk);

#endif
