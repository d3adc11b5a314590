/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_OUTPUT_H
#define GPUSHARE_TOOLS_OUTPUT_H
/*
 * The destination of a dump. A new regular file is written under a temporary name beside the
 * target. output_commit() renames it to the target's name, so an existing file stays until the new
 * one is complete. Devices and pipes are written in place.
 *
 * Threads write large blocks, while the caller analyses the data. A tmpfs file is mapped, if there
 * are enough CPUs, because write() on tmpfs admits one thread at a time. Other files are written
 * past the page cache (O_DIRECT). io_uring in place of threads is no faster (tools/README.md,
 * "Copying").
 */
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/crew.h"

#define OUTPUT_LARGE ((uint64_t)16 << 20) /* bytes of the smallest file that threads write */
#define OUTPUT_ALIGN 4096		  /* bytes, for O_DIRECT */
#define OUTPUT_BLOCK ((size_t)8 << 20)	  /* most bytes that threads write together */
#define OUTPUT_PIECE ((size_t)1 << 20)	  /* bytes that one thread writes at a time */
#define OUTPUT_PIECES (OUTPUT_BLOCK / OUTPUT_PIECE)

struct output {
	int fd;
	bool opened;		/* output_open() opened `fd`, so output_close() closes it */
	char path[PATH_MAX];	/* for messages, and the target of the rename */
	char partial[PATH_MAX]; /* path of the temporary file; "": there is none */
	uint64_t written;
	int error;			   /* errno of the first failure */
	const volatile sig_atomic_t *stop; /* if not 0, don't retry an interrupted write */

	struct crew *crew;	   /* the threads; NULL: use write() */
	unsigned char *map;	   /* the file's mapping, on a tmpfs only */
	uint64_t map_size;	   /* bytes */
	int direct;		   /* for other files: a descriptor with O_DIRECT; -1: none */
	const unsigned char *data; /* what the threads write now, at the offset `written` */
	size_t pending;		   /* bytes of `data` */
	unsigned char *room[OUTPUT_PIECES]; /* bounce buffers: see write_direct() */
	atomic_bool bounce;		    /* O_DIRECT can't read `data`: use `room` */
	atomic_bool cached;		    /* O_DIRECT was refused: use the page cache */
	atomic_int failed;		    /* errno of a thread's first failure */
};

/* `path`: NULL and "-" mean standard output. On failure, all functions but output_abandon() return
 * false and set output->error. They print nothing. */
bool output_open(struct output *output, const char *path, const volatile sig_atomic_t *stop);
/* Announce the total size. For a large file, choose how to write it, and set its size. If there is
 * not enough space, most file systems report ENOSPC here, before anything is written. */
bool output_reserve(struct output *output, uint64_t size);
bool output_write(struct output *output, const void *data, size_t size);
/* output_write() in two steps. The data must not change until output_wait() returns. */
bool output_start(struct output *output, const void *data, size_t size);
bool output_wait(struct output *output);
bool output_commit(struct output *output);
/* Close the file and remove it if it is unfinished. Does nothing after a commit. Returns true if
 * it removed a new file. */
bool output_abandon(struct output *output);

#endif
