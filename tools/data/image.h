/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_IMAGE_H
#define GPUSHARE_TOOLS_IMAGE_H
/*
 * A PNG file, made in memory: gray (HxW), RGB (HxWx3) or RGBA (HxWx4), 8 bits each. Bytes (u8) are
 * written as they are. Other types are scaled: `range` must be complete before the first element is
 * fed.
 */
#include <png.h>
#include <stdio.h>

#include "range.h"
#include "shape.h"

#define IMAGE_EXTENT_MAX 1000000	     /* of width and height: libpng's own limit */
#define IMAGE_PIXELS_MAX ((uint64_t)1 << 29) /* libpng makes less than 4 GiB in memory */

struct image {
	enum dtype dtype;
	const struct range *range;
	png_image png;
	size_t used; /* bytes of `pixels` */
	unsigned char *pixels;
};

bool image_is_scaled(enum dtype dtype);
/* The caller has checked by layout_find() that the shape is one of those above and within the
 * limits. Return false if there is no memory. Call image_free() in any case. */
bool image_begin(struct image *image, enum dtype dtype, const struct shape *shape,
		 const struct range *range);
/* Feed whole elements. */
void image_feed(struct image *image, const void *data, size_t size);
/* Write the file to `out`. Return false if there is no memory, or if writing fails. */
bool image_end(struct image *image, FILE *out);
void image_free(struct image *image);

#endif
