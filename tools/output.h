/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_OUTPUT_H
#define GPUSHARE_TOOLS_OUTPUT_H
/*
 * Where a dump goes. A regular file is written without a name (or under a temporary one beside it,
 * where the file system knows no such files) and takes the name at the end, so what was there stays
 * until the new one is whole; all else is written in place.
 */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bulk.h"

struct output {
	int fd;
	bool opened;		/* by us, so closed by us */
	bool unnamed;		/* a new file that has no name yet */
	char path[PATH_MAX];	/* for messages, and to rename to */
	char partial[PATH_MAX]; /* "": written in place, or unnamed */
	uint64_t written;
	int error;			   /* errno of the first failure */
	const volatile sig_atomic_t *stop; /* not 0: a write that a signal ends stays ended */
	struct bulk bulk;
	size_t pending; /* bytes between output_start() and output_wait() */
};

/* NULL or "-" is standard output. All return false with output->error set, nothing said. */
bool output_open(struct output *output, const char *path, const volatile sig_atomic_t *stop);
/* So many bytes will come: room for them is had now, and large files are written by threads. */
bool output_reserve(struct output *output, uint64_t size);
bool output_write(struct output *output, const void *data, size_t size);
/* The same in two steps: the data stays as it is until the second. */
bool output_start(struct output *output, const void *data, size_t size);
bool output_wait(struct output *output);
bool output_commit(struct output *output);
/* Close and remove what is unfinished; nothing to do after a commit. True if there was a new file
 * that is gone now. */
bool output_abandon(struct output *output);

#endif
