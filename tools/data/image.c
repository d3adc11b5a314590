/* SPDX-License-Identifier: MIT */
#include "image.h"

#include <stdlib.h>

/* from libpng, in place of 8 KiB: fewer calls of write() */
#define COMPRESSED_BYTES (64u << 10)

bool image_is_shape(const struct shape *shape)
{
	const uint64_t *extent = shape->extent;

	if (shape->rank != 2 && !(shape->rank == 3 && (extent[2] == 3 || extent[2] == 4)))
		return false;
	return extent[0] && extent[0] <= PNG_UINT_31_MAX && extent[1] &&
	       extent[1] <= PNG_UINT_31_MAX;
}

bool image_is_scaled(enum dtype dtype)
{
	return dtype != DTYPE_U8;
}

static void write_bytes(png_structp png, png_bytep data, size_t size)
{
	const struct image *image = png_get_io_ptr(png);

	if (!image->put(data, size, image->user))
		png_error(png, "");
}

static void flush_nothing(png_structp png)
{
	(void)png;
}

/* libpng's own function prints the message. */
static void leave(png_structp png, png_const_charp message)
{
	(void)message;
	png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

bool image_begin(struct image *image, enum dtype dtype, const struct shape *shape,
		 const struct range *range, bool (*put)(const void *data, size_t size, void *user),
		 void *user)
{
	uint64_t channels = shape->rank == 3 ? shape->extent[2] : 1;
	int colours = channels == 4   ? PNG_COLOR_TYPE_RGB_ALPHA
		      : channels == 3 ? PNG_COLOR_TYPE_RGB
				      : PNG_COLOR_TYPE_GRAY;

	*image = (struct image){.dtype = dtype,
				.range = range,
				.size = shape->extent[1] * channels,
				.put = put,
				.user = user};
	image->row = malloc(image->size);
	image->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, leave, ignore);
	image->info = image->png ? png_create_info_struct(image->png) : NULL;
	if (!image->row || !image->info || setjmp(png_jmpbuf(image->png)))
		return false;
	png_set_write_fn(image->png, image, write_bytes, flush_nothing);
	png_set_user_limits(image->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
	png_set_compression_buffer_size(image->png, COMPRESSED_BYTES);
	png_set_IHDR(image->png, image->info, (png_uint_32)shape->extent[1],
		     (png_uint_32)shape->extent[0], 8, colours, PNG_INTERLACE_NONE,
		     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(image->png, image->info);
	return true;
}

static unsigned char scaled(const struct image *image, double value)
{
	return (unsigned char)lround(range_part(image->range, value) * 255);
}

/* libpng leaves this by longjmp() if it fails. */
static void feed(struct image *image, const unsigned char *at, size_t size)
{
	size_t step = dtype_traits(image->dtype)->size;

	for (const unsigned char *end = at + size; at < end; at += step) {
		image->row[image->used++] = image_is_scaled(image->dtype)
						? scaled(image, dtype_real(image->dtype, at))
						: *at;
		if (image->used == image->size) {
			png_write_row(image->png, image->row);
			image->used = 0;
		}
	}
}

bool image_feed(struct image *image, const void *data, size_t size)
{
	if (setjmp(png_jmpbuf(image->png)))
		return false;
	feed(image, data, size);
	return true;
}

bool image_end(struct image *image)
{
	if (setjmp(png_jmpbuf(image->png)))
		return false;
	png_write_end(image->png, image->info);
	return true;
}

void image_free(struct image *image)
{
	png_destroy_write_struct(&image->png, &image->info);
	free(image->row);
	image->row = NULL;
}
