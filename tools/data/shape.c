/* SPDX-License-Identifier: MIT */
#include "shape.h"

#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Extents, separated by commas or by 'x'. `last`: what may follow the last one after commas. */
#define EXTENTS(last) "([0-9]+( *, *[0-9]+)*" last "|[0-9]+( *x *[0-9]+)*)"
#define IN_BRACKETS " *" EXTENTS("( *,)?") "? *"
#define SHAPE "^ *(" EXTENTS("") "|\\(" IN_BRACKETS "\\)|\\[" IN_BRACKETS "\\]) *$"

bool shape_parse(const char *text, struct shape *out)
{
	static const char digits[] = "0123456789";
	struct shape shape = {.rank = 0};
	regex_t syntax;
	bool good;

	if (regcomp(&syntax, SHAPE, REG_EXTENDED | REG_NOSUB))
		return false;
	good = !regexec(&syntax, text, 0, NULL, 0);
	regfree(&syntax);
	errno = 0;
	for (char *at = strpbrk(text, digits); good && at; at = strpbrk(at, digits)) {
		good = shape.rank < SHAPE_RANK_MAX;
		if (good)
			shape.extent[shape.rank++] = strtoull(at, &at, 10);
	}
	if (good && !errno)
		*out = shape;
	return good && !errno;
}

struct shape shape_line(uint64_t count)
{
	return (struct shape){.rank = 1, .extent = {count}};
}

/* A shape with an extent of 0 has no elements, even if the product of the other extents
 * overflows. */
static bool is_empty(const struct shape *shape)
{
	for (int i = 0; i < shape->rank; i++)
		if (!shape->extent[i])
			return true;
	return false;
}

bool shape_count(const struct shape *shape, uint64_t *out_count)
{
	uint64_t count = !is_empty(shape);

	for (int i = 0; count && i < shape->rank; i++)
		if (__builtin_mul_overflow(count, shape->extent[i], &count))
			return false;
	*out_count = count;
	return true;
}

bool shape_size(const struct shape *shape, size_t element_size, uint64_t *out_size)
{
	uint64_t size;

	if (!shape_count(shape, &size) || __builtin_mul_overflow(size, element_size, &size))
		return false;
	*out_size = size;
	return true;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->rank == b->rank &&
	       !memcmp(a->extent, b->extent, (size_t)a->rank * sizeof(*a->extent));
}

void shape_text(const struct shape *shape, char out[SHAPE_TEXT_MAX])
{
	int used = snprintf(out, SHAPE_TEXT_MAX, shape->rank ? "" : "()");

	for (int i = 0; i < shape->rank; i++)
		used += snprintf(out + used, (size_t)(SHAPE_TEXT_MAX - used), "%s%" PRIu64,
				 i ? "x" : "", shape->extent[i]);
}

void shape_index(const struct shape *shape, uint64_t at, char out[SHAPE_TEXT_MAX])
{
	uint64_t index[SHAPE_RANK_MAX];
	int used = snprintf(out, SHAPE_TEXT_MAX, "[");

	for (int i = shape->rank - 1; i >= 0; i--) {
		/* The first index is not reduced, because `at` may be past the last element. */
		index[i] = i ? at % shape->extent[i] : at;
		at /= shape->extent[i];
	}
	for (int i = 0; i < shape->rank; i++)
		used += snprintf(out + used, (size_t)(SHAPE_TEXT_MAX - used), "%s%" PRIu64,
				 i ? "," : "", index[i]);
	snprintf(out + used, (size_t)(SHAPE_TEXT_MAX - used), "]");
}
