/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_VIEW_H
#define GPUSHARE_TOOLS_VIEW_H
/* Bytes that come by once, as text: values with their index, or hex with their offset. */
#include "dtype.h"
#include "shape.h"

#define VIEW_VALUES 8	      /* of a line, which never goes on in another row */
#define VIEW_ROOM (64u << 10) /* bytes of text that are handed on at once */

struct view {
	enum dtype dtype; /* DTYPE_NONE: hex */
	struct shape shape;
	uint64_t at;  /* the next element; of hex, the next byte */
	uint64_t row; /* elements of one */
	int margin;   /* width of an index */
	bool (*put)(const void *text, size_t size, void *user);
	void *user;
	size_t used;
	char room[VIEW_ROOM];
};

/* Text goes to `put`; false of that is false of what called it. `shape` has no extent of 0 where
 * elements come. */
void view_values(struct view *view, enum dtype dtype, const struct shape *shape,
		 bool (*put)(const void *text, size_t size, void *user), void *user);
void view_hex(struct view *view, uint64_t offset,
	      bool (*put)(const void *text, size_t size, void *user), void *user);
/* Whole elements, or lines of HEXVIEW_LINE bytes; only the last may be short. */
bool view_feed(struct view *view, const void *data, size_t size);
bool view_end(struct view *view);

#endif
