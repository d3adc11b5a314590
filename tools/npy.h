/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_NPY_H
#define GPUSHARE_TOOLS_NPY_H
/*
 * The header of a .npy file: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 * Versions 1.0 to 3.0 are read; 1.0 is written, which has room for every shape there can be.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "shape.h"

#define NPY_HEADER_MAX ((size_t)64 << 10) /* of those that are read; NumPy writes 128 bytes */
#define NPY_FORMAT_MAX ((size_t)8192)
#define NPY_WHY_MAX 160

struct npy {
	enum dtype dtype;
	struct shape shape;
	size_t header_size; /* bytes before the data */
	uint64_t data_size;
};

/* Whether the first `size` bytes of a file say that it is one. */
bool npy_is(const void *data, size_t size);
/* Read the header from the first `size` bytes of a file; false with the reason. What follows the
 * header, and how much, is the caller's to check. */
bool npy_parse(const void *data, size_t size, struct npy *out, char why[NPY_WHY_MAX]);
/* Write one, so long that the data begins at a multiple of `align` (64 to 4096); its size in bytes.
 * `out` has room for NPY_FORMAT_MAX. */
size_t npy_format(enum dtype dtype, const struct shape *shape, size_t align, char *out);

#endif
