/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_OUTPUT_H
#define GPUSHARE_TOOLS_OUTPUT_H
/*
 * The destination of a dump. A new regular file is written under a temporary name beside the target.
 * output_commit() renames it to the target's name, so an existing file stays until the new one is
 * complete. Devices and pipes are written in place.
 */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bulk.h"

struct output {
	int fd;
	bool opened;		/* output_open() opened `fd`, so output_close() closes it */
	char path[PATH_MAX];	/* for messages, and the target of the rename */
	char partial[PATH_MAX]; /* path of the temporary file; "": there is none */
	uint64_t written;
	int error;			   /* errno of the first failure */
	const volatile sig_atomic_t *stop; /* not 0: don't retry an interrupted write */
	struct bulk bulk;
	size_t pending; /* bytes between output_start() and output_wait() */
};

/* `path`: NULL and "-" mean standard output. On failure, all functions but output_abandon() return
 * false and set output->error. They print nothing. */
bool output_open(struct output *output, const char *path, const volatile sig_atomic_t *stop);
/* Announce `size` bytes in total: reserves disk space now, and lets threads write large files. */
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
