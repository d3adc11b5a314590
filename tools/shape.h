/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SHAPE_H
#define GPUSHARE_TOOLS_SHAPE_H
/* How many elements there are in each dimension, the last one closest together. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPE_RANK_MAX 32			 /* NumPy's limit */
#define SHAPE_TEXT_MAX (SHAPE_RANK_MAX * 21 + 3) /* room for its text, NUL included */

struct shape {
	int rank; /* 0: one element, without an index */
	uint64_t extent[SHAPE_RANK_MAX];
};

/* "2x3", "2,3", "(2, 3)", "[2, 3]", "6", "(6,)"; "()" and "[]" are of rank 0. */
bool shape_parse(const char *text, struct shape *out);
struct shape shape_line(uint64_t count); /* of one dimension */
/* Elements of it; false: more than a uint64_t counts. */
bool shape_count(const struct shape *shape, uint64_t *out_count);
/* Bytes of it, likewise. */
bool shape_size(const struct shape *shape, size_t element_size, uint64_t *out_size);
bool shape_equal(const struct shape *a, const struct shape *b);
/* "2x3", "()". */
void shape_text(const struct shape *shape, char out[SHAPE_TEXT_MAX]);
/* "[1,2]" of element number `at`, "[]" of rank 0. No extent may be 0. */
void shape_index(const struct shape *shape, uint64_t at, char out[SHAPE_TEXT_MAX]);

#endif
