/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_LAYOUT_H
#define GPUSHARE_TOOLS_LAYOUT_H
/* Find which bytes of a buffer a request means, and their element type and shape: from options,
 * else from tags. */
#include "attach.h"

#define LAYOUT_DTYPE_TAG "dtype"
#define LAYOUT_SHAPE_TAG "shape"

struct layout {
	uint64_t offset, length; /* bytes */
	enum dtype dtype;	 /* DTYPE_U8 if nothing says the type */
	struct shape shape;
	uint64_t count; /* elements */
};

/* Read dtype and shape from the tags. If a tag is missing, its output stays unchanged. *has_shape:
 * there is a shape tag. Return false after reporting a tag that makes no sense. */
bool layout_read_tags(const struct gpushare_info *info, enum dtype *dtype, struct shape *shape,
		      bool *has_shape);
/* Find dtype and shape of the whole buffer from its tags, without reporting errors. Return false if
 * the tags say nothing that fits its size. */
bool layout_of_tags(const struct gpushare_info *info, enum dtype *out_dtype,
		    struct shape *out_shape);
/* Return false after reporting why the request doesn't fit the buffer. */
bool layout_find(const struct attach_request *request, const struct gpushare_info *info,
		 struct layout *out);
/* Write tags for dtype and shape to `out`, 2 at most; return how many. A shape whose text is too
 * long for a tag is left out. */
size_t layout_make_tags(enum dtype dtype, const struct shape *shape, struct gpushare_tag *out);

#endif
