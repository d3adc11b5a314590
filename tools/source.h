/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SOURCE_H
#define GPUSHARE_TOOLS_SOURCE_H
/* A regular file with a buffer's bytes: raw, or behind a .npy header, which is checked. */
#include <sys/types.h>

#include "npy.h"

struct source {
	int fd; /* at the first byte of the data */
	bool is_npy;
	struct npy npy;	       /* where it is one */
	uint64_t size;	       /* bytes of the data, all of them there */
	char why[NPY_WHY_MAX]; /* of a failure */
};

/* `raw`: whatever it begins with, it is no .npy file. */
/* `follow`: a symbolic link, too. */
bool source_open(struct source *source, const char *path, bool raw, bool follow);
/* Up to `size` bytes; fewer only at the end. -1 with errno. */
ssize_t source_read(int fd, void *data, size_t size);

#endif
