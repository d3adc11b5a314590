/* SPDX-License-Identifier: MIT */
#include "range.h"

void range_add(struct range *range, enum dtype dtype, const void *data, size_t size)
{
	size_t step = dtype_traits(dtype)->size;
	const unsigned char *at = data, *end = at + size;

	for (; at < end; at += step) {
		double value = dtype_real(dtype, at);

		range->nans += isnan(value);
		if (isfinite(value) && value < range->least)
			range->least = value;
		if (isfinite(value) && value > range->most)
			range->most = value;
	}
}

/* Halve the values, because the difference of two doubles may be infinite. fmax() turns a NaN into
 * 0. */
double range_part(const struct range *range, double value)
{
	double half = range->most / 2 - range->least / 2;

	return fmin(fmax((value / 2 - range->least / 2) / half, 0), 1);
}
