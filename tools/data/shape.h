/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SHAPE_H
#define GPUSHARE_TOOLS_SHAPE_H
/* The number of elements in each dimension, in C order: the last index varies fastest. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPE_RANK_MAX 32 /* the limit of NumPy 1; NumPy 2 allows 64 */
/* longest text of shape_text() and shape_index(), NUL included */
#define SHAPE_TEXT_MAX (SHAPE_RANK_MAX * 21 + 3)

struct shape {
	int rank; /* 0: a scalar, one element */
	uint64_t extent[SHAPE_RANK_MAX];
};

/* Accepts "2x3", "2,3", "(2, 3)", "[2, 3]", "6", "(6,)"; "()" and "[]" have rank 0. */
bool shape_parse(const char *text, struct shape *out);
struct shape shape_line(uint64_t count); /* one dimension of `count` elements */
/* The number of elements. Returns false if it exceeds a uint64_t. */
bool shape_count(const struct shape *shape, uint64_t *out_count);
/* The number of bytes. Returns false if it exceeds a uint64_t. */
bool shape_size(const struct shape *shape, size_t element_size, uint64_t *out_size);
bool shape_equal(const struct shape *a, const struct shape *b);
/* For example "2x3"; "()" for rank 0. */
void shape_text(const struct shape *shape, char out[SHAPE_TEXT_MAX]);
/* The index of element number `at`, for example "[1,2]"; "[]" for rank 0. No extent may be 0. */
void shape_index(const struct shape *shape, uint64_t at, char out[SHAPE_TEXT_MAX]);

#endif
