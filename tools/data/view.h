/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_VIEW_H
#define GPUSHARE_TOOLS_VIEW_H
/* Write a stream of bytes as text: values with their index, or hex with their offset. */
#include <stdio.h>

#include "dtype.h"
#include "shape.h"

#define VIEW_VALUES 8	  /* values per line; a line never spans two rows */
#define VIEW_HEX_BYTES 16 /* per line */

struct view {
	enum dtype dtype; /* DTYPE_NONE: hex */
	struct shape shape;
	uint64_t at;  /* index of the next element; for hex, offset of the next byte */
	uint64_t row; /* elements per row */
	int margin;   /* width of the index column */
	FILE *out;
};

/* If there are elements, no extent of `shape` may be 0. */
void view_values(struct view *view, enum dtype dtype, const struct shape *shape, FILE *out);
void view_hex(struct view *view, uint64_t offset, FILE *out);
/* Add whole elements, or lines of VIEW_HEX_BYTES bytes. Only the last line may be shorter. */
void view_feed(struct view *view, const void *data, size_t size);
void view_end(struct view *view);

#endif
