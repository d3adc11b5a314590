/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COMPARE_H
#define GPUSHARE_TOOLS_COMPARE_H
/* Where bytes that come by once differ from other bytes, by elements. */
#include "dtype.h"

struct compare {
	enum dtype dtype;
	uint64_t done;			    /* bytes */
	uint64_t bytes;			    /* of those, that differ */
	uint64_t elements;		    /* that differ */
	uint64_t first;			    /* byte, if any does */
	unsigned char ours[DTYPE_SIZE_MAX]; /* the element that it is in */
	unsigned char theirs[DTYPE_SIZE_MAX];
};

void compare_begin(struct compare *compare, enum dtype dtype);
/* `size` bytes more; a multiple of an element's, but for the last. */
void compare_add(struct compare *compare, const void *ours, const void *theirs, size_t size);

#endif
