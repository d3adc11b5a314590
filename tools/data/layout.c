/* SPDX-License-Identifier: MIT */
#include "layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "image.h"

static const char *tag_of(const struct gpushare_info *info, const char *key)
{
	for (uint32_t i = 0; i < info->tag_count; i++)
		if (!strcmp(info->tags[i].key, key))
			return info->tags[i].value;
	return NULL;
}

static bool read_dtype(const struct gpushare_info *info, enum dtype *dtype)
{
	const char *type = tag_of(info, LAYOUT_DTYPE_TAG);

	if (!type || (*dtype = dtype_parse(type)))
		return true;
	tool_error("'%s' is tagged dtype=%s, which is not a known type; give the type with "
		   "--dtype",
		   info->name, type);
	return false;
}

static bool read_shape(const struct gpushare_info *info, struct shape *shape, bool *has_shape)
{
	const char *text = tag_of(info, LAYOUT_SHAPE_TAG);

	*has_shape = text && shape_parse(text, shape);
	if (!text || *has_shape)
		return true;
	tool_error("'%s' is tagged shape=%s, which is not a shape; give the shape with --shape",
		   info->name, text);
	return false;
}

bool layout_read_tags(const struct gpushare_info *info, enum dtype *dtype, struct shape *shape,
		      bool *has_shape)
{
	return read_dtype(info, dtype) && read_shape(info, shape, has_shape);
}

bool layout_of_tags(const struct gpushare_info *info, enum dtype *out_dtype,
		    struct shape *out_shape)
{
	const char *type = tag_of(info, LAYOUT_DTYPE_TAG), *text = tag_of(info, LAYOUT_SHAPE_TAG);
	enum dtype dtype = type ? dtype_parse(type) : DTYPE_U8;
	struct shape shape = {.rank = 0};
	uint64_t size = 0;

	if ((!type && !text) || dtype == DTYPE_NONE)
		return false;
	if (!text)
		shape = shape_line(info->size / dtype_traits(dtype)->size);
	else if (!shape_parse(text, &shape))
		return false;
	if (!shape_size(&shape, dtype_traits(dtype)->size, &size) || size != info->size)
		return false;
	*out_dtype = dtype;
	*out_shape = shape;
	return true;
}

/* Check --offset and --length against the buffer's size. */
static bool find_range(const struct query *query, const struct gpushare_info *info,
		       struct layout *layout)
{
	layout->offset = query->offset;
	if (query->offset > info->size) {
		tool_error("offset %" PRIu64 " is past the end of '%s', which has %" PRIu64
			   " bytes",
			   query->offset, info->name, info->size);
		return false;
	}
	layout->length = query->has_length ? query->length : info->size - query->offset;
	if (layout->length > info->size - query->offset) {
		tool_error("%" PRIu64 " bytes from offset %" PRIu64
			   " run past the end of '%s', which has "
			   "%" PRIu64 " bytes",
			   layout->length, query->offset, info->name, info->size);
		return false;
	}
	return true;
}

/* Return true if the request depends on element type or shape. */
static bool wants_elements(const struct query *query)
{
	return query->format == FORMAT_NPY || query->format == FORMAT_TEXT ||
	       query->format == FORMAT_PNG || query->stats || query->plot || query->has_shape;
}

static bool fits(const struct layout *layout, const struct shape *shape, const char *name,
		 const char *source)
{
	size_t each = dtype_traits(layout->dtype)->size;
	char text[SHAPE_TEXT_MAX];
	uint64_t size = 0;
	bool counts = shape_size(shape, each, &size);

	if (counts && size == layout->length)
		return true;
	shape_text(shape, text);
	if (counts)
		tool_error("%s %s of %s is %" PRIu64 " bytes, but %" PRIu64
			   " bytes of '%s' are to be read",
			   source, text, dtype_traits(layout->dtype)->name, size, layout->length,
			   name);
	else
		tool_error("%s %s of %s is larger than any memory", source, text,
			   dtype_traits(layout->dtype)->name);
	return false;
}

/* A shape tag describes the whole buffer, in the tagged type. For a part of the buffer, or with
 * --dtype, the tag is used only if it fits. */
static bool find_elements(const struct query *query, const struct gpushare_info *info,
			  struct layout *layout)
{
	struct shape tag = {.rank = 0};
	bool tagged = false, whole = layout->length == info->size && !query->dtype;
	enum dtype dtype = DTYPE_NONE;
	uint64_t size = 0;
	size_t each;

	/* An option replaces its tag, even an invalid tag. With --dtype, also ignore an invalid
	 * shape tag. */
	if (!query->dtype && !read_dtype(info, &dtype))
		return false;
	if (query->dtype && tag_of(info, LAYOUT_SHAPE_TAG))
		tagged = shape_parse(tag_of(info, LAYOUT_SHAPE_TAG), &tag);
	else if (!query->has_shape && !read_shape(info, &tag, &tagged))
		return false;
	layout->dtype = query->dtype ? query->dtype : dtype ? dtype : DTYPE_U8;
	each = dtype_traits(layout->dtype)->size;
	if (layout->length % each) {
		tool_error("%" PRIu64 " bytes of '%s' are not a multiple of the %zu bytes of a %s",
			   layout->length, info->name, each, dtype_traits(layout->dtype)->name);
		return false;
	}
	layout->shape = shape_line(layout->length / each);
	if (query->has_shape) {
		layout->shape = query->shape;
		return fits(layout, &query->shape, info->name, "--shape");
	}
	if (tagged && !whole)
		tagged = shape_size(&tag, each, &size) && size == layout->length;
	if (tagged)
		layout->shape = tag;
	return !tagged || fits(layout, &tag, info->name, "the tag shape");
}

/* Raw bytes need an element type only for --diff, which reports elements that differ. */
static void find_bytes(const struct query *query, const struct gpushare_info *info,
		       struct layout *layout)
{
	const char *tag = tag_of(info, LAYOUT_DTYPE_TAG);

	layout->dtype = DTYPE_U8;
	if (query->diff && (query->dtype || (tag && dtype_parse(tag))))
		layout->dtype = query->dtype ? query->dtype : dtype_parse(tag);
	if (layout->length % dtype_traits(layout->dtype)->size)
		layout->dtype = DTYPE_U8;
	layout->shape = shape_line(layout->length / dtype_traits(layout->dtype)->size);
}

static bool check_image(const struct query *query, const struct shape *shape)
{
	uint64_t high = shape->extent[0], wide = shape->extent[1], each = shape->extent[2];
	bool is_image = shape->rank == 2 || (shape->rank == 3 && (each == 3 || each == 4));
	char text[SHAPE_TEXT_MAX];

	shape_text(shape, text);
	if (!is_image || !high || !wide)
		tool_error("'%s' has shape %s, but a PNG needs HxW, HxWx3 or HxWx4: give one, "
			   "as in --shape 480x640x3",
			   query->name, text);
	else if (high > IMAGE_EXTENT_MAX || wide > IMAGE_EXTENT_MAX ||
		 high * wide > IMAGE_PIXELS_MAX)
		tool_error("'%s' has shape %s, but a PNG has up to %d pixels each way, and %d Mi "
			   "in all: select a part with --offset and --shape",
			   query->name, text, IMAGE_EXTENT_MAX, (int)(IMAGE_PIXELS_MAX >> 20));
	else
		return true;
	return false;
}

bool layout_find(const struct query *query, const struct gpushare_info *info, struct layout *out)
{
	struct layout layout = {.dtype = DTYPE_NONE};

	if (!find_range(query, info, &layout))
		return false;
	if (!wants_elements(query))
		find_bytes(query, info, &layout);
	else if (!find_elements(query, info, &layout))
		return false;
	layout.count = layout.length / dtype_traits(layout.dtype)->size;
	if (query->has_head && query->head < layout.count) {
		layout.count = query->head;
		layout.length = layout.count * dtype_traits(layout.dtype)->size;
		/* Text keeps the whole shape, because it shows indices of the whole array. */
		if (query->format == FORMAT_NPY || query->format == FORMAT_PNG || query->stats ||
		    query->plot)
			layout.shape = shape_line(layout.count);
	}
	if (query->format == FORMAT_PNG && !check_image(query, &layout.shape))
		return false;
	*out = layout;
	return true;
}

size_t layout_make_tags(enum dtype dtype, const struct shape *shape, struct gpushare_tag *out)
{
	char text[SHAPE_TEXT_MAX];

	out[0] = (struct gpushare_tag){.key = LAYOUT_DTYPE_TAG};
	snprintf(out[0].value, sizeof(out[0].value), "%s", dtype_traits(dtype)->name);
	shape_text(shape, text);
	if (strlen(text) > GPUSHARE_TAG_VALUE_MAX)
		return 1;
	out[1] = (struct gpushare_tag){.key = LAYOUT_SHAPE_TAG};
	memcpy(out[1].value, text, strlen(text) + 1);
	return 2;
}
