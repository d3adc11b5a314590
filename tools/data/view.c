/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_TEXT ((size_t)SHAPE_TEXT_MAX + DTYPE_TEXT_MAX + VIEW_HEX_TEXT)

void view_hex_line(const unsigned char *data, size_t size, uint64_t offset, char out[VIEW_HEX_TEXT])
{
	/* Offsets past 32 bits take more columns, as with hexdump. */
	char *to = out + sprintf(out, "%08" PRIx64 " ", offset);

	for (size_t i = 0; i < VIEW_HEX_BYTES; i++) {
		if (i % 8 == 0)
			*to++ = ' ';
		to += i < size ? sprintf(to, "%02x ", data[i]) : sprintf(to, "   ");
	}
	to += sprintf(to, " |");
	for (size_t i = 0; i < size; i++)
		*to++ = data[i] >= ' ' && data[i] <= '~' ? (char)data[i] : '.';
	*to++ = '|';
	*to = '\0';
}

static void view_init(struct view *view, bool (*put)(const void *, size_t, void *), void *user)
{
	view->put = put;
	view->user = user;
	view->used = 0;
	view->at = 0;
	view->dtype = DTYPE_NONE;
}

void view_values(struct view *view, enum dtype dtype, const struct shape *shape,
		 bool (*put)(const void *text, size_t size, void *user), void *user)
{
	char last[SHAPE_TEXT_MAX];
	uint64_t count = 0;

	view_init(view, put, user);
	view->dtype = dtype;
	view->shape = *shape;
	view->row = shape->rank ? shape->extent[shape->rank - 1] : 1;
	if (!view->row)
		view->row = 1;
	view->margin = 0;
	if (!shape_count(shape, &count) || !count)
		return;
	shape_index(shape, count - 1, last);
	view->margin = (int)strlen(last);
}

void view_hex(struct view *view, uint64_t offset,
	      bool (*put)(const void *text, size_t size, void *user), void *user)
{
	view_init(view, put, user);
	view->at = offset;
}

static bool view_flush(struct view *view)
{
	bool good = !view->used || view->put(view->room, view->used, view->user);

	view->used = 0;
	return good;
}

/* Returns room for a line of text, and passes on the text so far if needed. NULL: `put` failed. */
static char *view_room(struct view *view)
{
	if (VIEW_ROOM - view->used < LINE_MAX_TEXT && !view_flush(view))
		return NULL;
	return view->room + view->used;
}

static bool view_value(struct view *view, const void *data)
{
	uint64_t in_line = view->at % view->row % VIEW_VALUES;
	char text[DTYPE_TEXT_MAX], index[SHAPE_TEXT_MAX];
	char *to = view_room(view);

	if (!to)
		return false;
	if (!in_line) {
		shape_index(&view->shape, view->at, index);
		to += sprintf(to, "%-*s", view->margin, index);
	}
	dtype_text(view->dtype, data, text);
	to += sprintf(to, " %*s", view->row > 1 ? dtype_traits(view->dtype)->width : 0, text);
	view->at++;
	if (!(view->at % view->row % VIEW_VALUES) || !(view->at % view->row))
		*to++ = '\n';
	view->used = (size_t)(to - view->room);
	return true;
}

static bool view_line(struct view *view, const unsigned char *data, size_t size)
{
	char *to = view_room(view);

	if (!to)
		return false;
	view_hex_line(data, size, view->at, to);
	to += strlen(to);
	*to++ = '\n';
	view->at += size;
	view->used = (size_t)(to - view->room);
	return true;
}

bool view_feed(struct view *view, const void *data, size_t size)
{
	size_t step = view->dtype ? dtype_traits(view->dtype)->size : VIEW_HEX_BYTES;
	const unsigned char *at = data;

	for (size_t part; size; size -= part, at += part) {
		part = size < step ? size : step;
		if (view->dtype ? !view_value(view, at) : !view_line(view, at, part))
			return false;
	}
	return true;
}

bool view_end(struct view *view)
{
	char *to = view_room(view);

	if (!to)
		return false;
	if (!view->dtype)
		view->used += (size_t)sprintf(to, "%08" PRIx64 "\n", view->at);
	else if (view->at % view->row % VIEW_VALUES)
		view->room[view->used++] = '\n';
	return view_flush(view);
}
