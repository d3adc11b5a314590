/* SPDX-License-Identifier: MIT */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " ");
}

static bool parse_extent(const char **at, uint64_t *out)
{
	uint64_t value = 0;

	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; (*at)++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
			return false;
	*out = value;
	return true;
}

bool shape_parse(const char *text, struct shape *out)
{
	struct shape shape = {.rank = 0};
	const char *at = skip_blanks(text);
	char end = *at == '(' ? ')' : *at == '[' ? ']' : '\0', between = '\0';

	if (end)
		at = skip_blanks(at + 1);
	while (*at != end || (!end && !shape.rank)) {
		if (shape.rank == SHAPE_RANK_MAX || !parse_extent(&at, &shape.extent[shape.rank]))
			return false;
		shape.rank++;
		at = skip_blanks(at);
		if (*at == end)
			break;
		/* All separators must be the same. A trailing comma is allowed only in brackets. */
		if ((*at != ',' && *at != 'x') || (between && *at != between))
			return false;
		between = *at;
		at = skip_blanks(at + 1);
		if (*at == end && (!end || between != ','))
			return false;
	}
	if (end && *skip_blanks(at + 1))
		return false;
	*out = shape;
	return true;
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
