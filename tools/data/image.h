/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_IMAGE_H
#define GPUSHARE_TOOLS_IMAGE_H
/*
 * A PNG file, written row by row: gray (HxW), RGB (HxWx3) or RGBA (HxWx4), 8 bits each. Bytes (u8)
 * are written as they are. Other types are scaled: `range` must be complete before the first element
 * is fed.
 */
#include <png.h>

#include "range.h"
#include "shape.h"

struct image {
	enum dtype dtype;
	const struct range *range;
	uint64_t size, used; /* bytes of a row, and how many of them were fed */
	unsigned char *row;
	png_structp png;
	png_infop info;
	bool (*put)(const void *data, size_t size, void *user);
	void *user;
};

bool image_is_shape(const struct shape *shape);
bool image_is_scaled(enum dtype dtype);
/* Write the header. `put` gets the file's bytes. Return false if it returned false, or if there is
 * no memory; so do the other functions. Call image_free() in any case. */
bool image_begin(struct image *image, enum dtype dtype, const struct shape *shape,
		 const struct range *range, bool (*put)(const void *data, size_t size, void *user),
		 void *user);
/* Feed whole elements. */
bool image_feed(struct image *image, const void *data, size_t size);
bool image_end(struct image *image);
void image_free(struct image *image);

#endif
