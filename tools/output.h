/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_OUTPUT_H
#define GPUSHARE_TOOLS_OUTPUT_H
/*
 * Where a dump goes. A regular file is written under a temporary name beside it and renamed at
 * the end, so what was there stays until the new one is whole; all else is written in place.
 */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output {
	int fd;
	bool opened;		/* by us, so closed by us */
	char path[PATH_MAX];	/* for messages, and to rename to */
	char partial[PATH_MAX]; /* "": written in place */
	uint64_t written;
	int error;			   /* errno of the first failure */
	const volatile sig_atomic_t *stop; /* not 0: a write that a signal ends stays ended */
};

/* NULL or "-" is standard output. All return false with output->error set, nothing said. */
bool output_open(struct output *output, const char *path, const volatile sig_atomic_t *stop);
bool output_write(struct output *output, const void *data, size_t size);
bool output_commit(struct output *output);
/* Close and remove what is unfinished; nothing to do after a commit. */
void output_abandon(struct output *output);

#endif
