/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COMPARE_H
#define GPUSHARE_TOOLS_COMPARE_H
/* Compare a stream of bytes with another one, element by element. */
#include "dtype.h"

struct compare {
	enum dtype dtype;
	uint64_t done;			    /* bytes that were compared */
	uint64_t bytes;			    /* bytes that differ */
	uint64_t elements;		    /* elements that differ */
	uint64_t first;			    /* offset of the first byte that differs, if any does */
	unsigned char ours[DTYPE_SIZE_MAX]; /* the element with the first byte that differs */
	unsigned char theirs[DTYPE_SIZE_MAX];
};

void compare_begin(struct compare *compare, enum dtype dtype);
/* Compare the next `size` bytes. All sizes but the last must be multiples of the element size. */
void compare_add(struct compare *compare, const void *ours, const void *theirs, size_t size);

#endif
