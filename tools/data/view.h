/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_VIEW_H
#define GPUSHARE_TOOLS_VIEW_H
/* Streams bytes as text: values with their index, or hex with their offset. */
#include "dtype.h"
#include "shape.h"

#define VIEW_VALUES 8	      /* values per line; a line never spans two rows */
#define VIEW_HEX_BYTES 16     /* per line */
#define VIEW_HEX_TEXT 96      /* room for a line with a 64-bit offset, NUL included */
#define VIEW_ROOM (64u << 10) /* most bytes of text per call of `put` */

struct view {
	enum dtype dtype; /* DTYPE_NONE: hex */
	struct shape shape;
	uint64_t at;  /* index of the next element; for hex, offset of the next byte */
	uint64_t row; /* elements per row */
	int margin;   /* width of the index column */
	bool (*put)(const void *text, size_t size, void *user);
	void *user;
	size_t used;
	char room[VIEW_ROOM];
};

/* The functions pass the text to `put`. If `put` returns false, the calling function returns
 * false too. If there are elements, no extent of `shape` may be 0. */
void view_values(struct view *view, enum dtype dtype, const struct shape *shape,
		 bool (*put)(const void *text, size_t size, void *user), void *user);
void view_hex(struct view *view, uint64_t offset,
	      bool (*put)(const void *text, size_t size, void *user), void *user);
/* Add whole elements, or lines of VIEW_HEX_BYTES bytes. Only the last line may be shorter. */
bool view_feed(struct view *view, const void *data, size_t size);
bool view_end(struct view *view);
/* Format one line as hexdump -C does, without a newline: `size` bytes (1 to 16), the first of them
 * at `offset`. */
void view_hex_line(const unsigned char *data, size_t size, uint64_t offset,
		   char out[VIEW_HEX_TEXT]);

#endif
