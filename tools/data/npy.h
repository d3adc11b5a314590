/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_NPY_H
#define GPUSHARE_TOOLS_NPY_H
/*
 * The header of a .npy file. Source:
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 * Reads versions 1.0 to 3.0. Writes 1.0, whose 16-bit header length is enough for every shape.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "shape.h"

/* limit for headers that are read; NumPy's usually have 128 bytes */
#define NPY_HEADER_MAX ((size_t)64 << 10)
#define NPY_FORMAT_MAX ((size_t)8192)
#define NPY_WHY_MAX 160

struct npy {
	enum dtype dtype;
	struct shape shape;
	size_t header_size; /* bytes before the data */
	uint64_t data_size;
};

/* Whether the first `size` bytes of a file begin with the .npy magic. */
bool npy_is(const void *data, size_t size);
/* Parse the header from the first `size` bytes of a file. On failure, returns false and writes the
 * reason to `why`. The caller checks that data_size bytes follow the header. */
bool npy_parse(const void *data, size_t size, struct npy *out, char why[NPY_WHY_MAX]);
/* Write a header, padded so that the data begins at a multiple of `align` (64 to 4096). Returns
 * its size in bytes. `out` has room for NPY_FORMAT_MAX. */
size_t npy_format(enum dtype dtype, const struct shape *shape, size_t align, char *out);

#endif
