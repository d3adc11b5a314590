/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#define LINE_MAX_BYTES 96

void view_values(struct view *view, enum dtype dtype, const struct shape *shape, FILE *out)
{
	char last[SHAPE_TEXT_MAX];
	uint64_t count = 0;

	*view = (struct view){.dtype = dtype, .shape = *shape, .out = out};
	view->row = shape->rank ? shape->extent[shape->rank - 1] : 1;
	if (!view->row)
		view->row = 1;
	if (!shape_count(shape, &count) || !count)
		return;
	shape_index(shape, count - 1, last);
	view->margin = (int)strlen(last);
}

void view_hex(struct view *view, uint64_t offset, FILE *out)
{
	*view = (struct view){.at = offset, .out = out};
}

static void view_value(struct view *view, const void *data)
{
	char text[DTYPE_TEXT_MAX], index[SHAPE_TEXT_MAX];

	if (!(view->at % view->row % VIEW_VALUES)) {
		shape_index(&view->shape, view->at, index);
		fprintf(view->out, "%-*s", view->margin, index);
	}
	dtype_text(view->dtype, data, text);
	fprintf(view->out, " %*s", view->row > 1 ? dtype_traits(view->dtype)->width : 0, text);
	view->at++;
	if (!(view->at % view->row % VIEW_VALUES) || !(view->at % view->row))
		putc('\n', view->out);
}

/* Write a line as hexdump -C does: 1 to 16 bytes. Offsets past 32 bits take more columns. */
static void view_line(struct view *view, const unsigned char *data, size_t size)
{
	char text[LINE_MAX_BYTES], *to = text;

	for (size_t i = 0; i < VIEW_HEX_BYTES; i++) {
		if (i % 8 == 0)
			*to++ = ' ';
		to += i < size ? sprintf(to, "%02x ", data[i]) : sprintf(to, "   ");
	}
	to += sprintf(to, " |");
	for (size_t i = 0; i < size; i++)
		*to++ = data[i] >= ' ' && data[i] <= '~' ? (char)data[i] : '.';
	fprintf(view->out, "%08" PRIx64 " %.*s|\n", view->at, (int)(to - text), text);
	view->at += size;
}

void view_feed(struct view *view, const void *data, size_t size)
{
	size_t step = view->dtype ? dtype_traits(view->dtype)->size : VIEW_HEX_BYTES;
	const unsigned char *at = data;

	for (size_t part; size; size -= part, at += part) {
		part = size < step ? size : step;
		if (view->dtype)
			view_value(view, at);
		else
			view_line(view, at, part);
	}
}

void view_end(struct view *view)
{
	if (!view->dtype)
		fprintf(view->out, "%08" PRIx64 "\n", view->at);
	else if (view->at % view->row % VIEW_VALUES)
		putc('\n', view->out);
}
