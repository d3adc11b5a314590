/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_LAYOUT_H
#define GPUSHARE_TOOLS_LAYOUT_H
/* Which bytes of a buffer are meant, and which elements they are: from flags, else from its tags. */
#include "attach.h"

#define LAYOUT_DTYPE_TAG "dtype"
#define LAYOUT_SHAPE_TAG "shape"

struct layout {
	uint64_t offset, length; /* bytes */
	enum dtype dtype;	 /* bytes, where nothing says what they are */
	struct shape shape;
	uint64_t count; /* elements */
};

/* What the tags say; what they don't is left as it is. False: they make no sense; said. */
bool layout_read_tags(const struct gpushare_info *info, enum dtype *dtype, struct shape *shape,
		      bool *has_shape);
/* What all of the buffer is by its tags, without a word; false: they say nothing that fits its size. */
bool layout_of_tags(const struct gpushare_info *info, enum dtype *out_dtype,
		    struct shape *out_shape);
/* False: what was asked for does not fit the buffer; said. */
bool layout_find(const struct attach_request *request, const struct gpushare_info *info,
		 struct layout *out);
/* Tags for them, 2 at most; a shape whose text is too long for a tag is left out. */
size_t layout_make_tags(enum dtype dtype, const struct shape *shape, struct gpushare_tag *out);

#endif
