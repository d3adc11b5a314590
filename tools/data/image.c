/* SPDX-License-Identifier: MIT */
#include "image.h"

#include <stdlib.h>

bool image_is_scaled(enum dtype dtype)
{
	return dtype != DTYPE_U8;
}

bool image_begin(struct image *image, enum dtype dtype, const struct shape *shape,
		 const struct range *range)
{
	uint64_t channels = shape->rank == 3 ? shape->extent[2] : 1;

	*image = (struct image){
	    .dtype = dtype,
	    .range = range,
	    .png = {.version = PNG_IMAGE_VERSION,
		    .height = (png_uint_32)shape->extent[0],
		    .width = (png_uint_32)shape->extent[1],
		    .format = channels == 4   ? PNG_FORMAT_RGBA
			      : channels == 3 ? PNG_FORMAT_RGB
					      : PNG_FORMAT_GRAY},
	    .pixels = malloc(shape->extent[0] * shape->extent[1] * channels),
	};
	return image->pixels != NULL;
}

static unsigned char scaled(const struct image *image, double value)
{
	return (unsigned char)lround(range_part(image->range, value) * 255);
}

void image_feed(struct image *image, const void *data, size_t size)
{
	size_t step = dtype_traits(image->dtype)->size;
	const unsigned char *at = data, *end = at + size;

	for (; at < end; at += step)
		image->pixels[image->used++] = image_is_scaled(image->dtype)
						   ? scaled(image, dtype_real(image->dtype, at))
						   : *at;
}

bool image_end(struct image *image, FILE *out)
{
	return png_image_write_to_stdio(&image->png, out, 0, image->pixels, 0, NULL);
}

void image_free(struct image *image)
{
	free(image->pixels);
	image->pixels = NULL;
}
