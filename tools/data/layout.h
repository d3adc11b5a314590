/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_LAYOUT_H
#define GPUSHARE_TOOLS_LAYOUT_H
/* Find the bytes of a buffer that a query selects, and their element type and shape: from the
 * options, else from the buffer's tags. */
#include "common/tool.h"
#include "dtype.h"
#include "shape.h"

#define LAYOUT_DTYPE_TAG "dtype"
#define LAYOUT_SHAPE_TAG "shape"

/* X(name, text): output formats */
#define FORMATS(X) X(RAW, "raw") X(HEX, "hex") X(NPY, "npy") X(TEXT, "text") X(PNG, "png")

enum format {
	FORMAT_NONE, /* not given: raw, or hex on a terminal */
#define X(name, text) FORMAT_##name,
	FORMATS(X)
#undef X
};

/* The request to read a buffer: which bytes, as which elements, and what to output. */
struct query {
	const char *name;	 /* of the buffer; NULL: none was given */
	uint64_t offset, length; /* bytes */
	bool has_offset, has_length;
	enum format format;
	enum dtype dtype; /* DTYPE_NONE: as the buffer's tags say */
	struct shape shape;
	bool has_shape;
	uint64_t head; /* number of elements to read from the beginning */
	bool has_head;
	bool stats, sha256, plot;
	char *out_sha256; /* DIGEST_TEXT_MAX bytes for the SHA-256; NULL: print it */
	const char *diff; /* file to compare with; NULL: none */
	bool diff_in_set; /* `diff` is a file of a set: refuse symbolic links */
};

struct layout {
	uint64_t offset, length; /* bytes */
	enum dtype dtype;	 /* DTYPE_U8 if neither option nor tag gives a type */
	struct shape shape;
	uint64_t count; /* elements */
};

/* Read dtype and shape from the tags. If a tag is missing, *dtype or *shape stays unchanged.
 * *has_shape: there is a shape tag. Returns false after reporting a tag that can't be parsed. */
bool layout_read_tags(const struct gpushare_info *info, enum dtype *dtype, struct shape *shape,
		      bool *has_shape);
/* Find dtype and shape of the whole buffer from its tags, without reporting errors. Returns false
 * if there are no such tags, or if they don't fit the buffer's size. */
bool layout_of_tags(const struct gpushare_info *info, enum dtype *out_dtype,
		    struct shape *out_shape);
/* Return false after reporting why the query doesn't fit the buffer. */
bool layout_find(const struct query *query, const struct gpushare_info *info, struct layout *out);
/* Write the tags dtype and shape to `out`. Returns their number. Omits a shape that is too long for
 * a tag. */
size_t layout_make_tags(enum dtype dtype, const struct shape *shape, struct gpushare_tag *out);

#endif
