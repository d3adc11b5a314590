/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SOURCE_H
#define GPUSHARE_TOOLS_SOURCE_H
/* A regular file with bytes for a buffer: a raw file, or a .npy file, whose header source_open()
 * checks. */
#include <sys/types.h>

#include "npy.h"

struct source {
	int fd; /* at the first byte of the data */
	bool is_npy;
	struct npy npy; /* if is_npy */
	/* bytes of data; source_open() checks that a .npy file has all of them */
	uint64_t size;
	char why[NPY_WHY_MAX]; /* why source_open() failed */
};

/* `raw`: don't look for a .npy header. `follow`: allow `path` to be a symbolic link. On failure,
 * returns false with the reason in source->why. */
bool source_open(struct source *source, const char *path, bool raw, bool follow);
/* Read `size` bytes, fewer only at the end of the file. Returns the number read; -1 with errno. */
ssize_t source_read(int fd, void *data, size_t size);

#endif
