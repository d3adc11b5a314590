/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_RANGE_H
#define GPUSHARE_TOOLS_RANGE_H
/* The smallest and the largest finite value, and the position of a value between them. */
#include <math.h>

#include "dtype.h"

struct range {
	double least, most; /* least > most: there is no finite value */
	uint64_t nans;
};

#define RANGE_EMPTY ((struct range){.least = (double)INFINITY, .most = -(double)INFINITY})

/* Add whole elements. */
void range_add(struct range *range, enum dtype dtype, const void *data, size_t size);
/* The position of `value` in the range, from 0 (the smallest value or below) to 1 (the largest or
 * above); 0 for a NaN. */
double range_part(const struct range *range, double value);

#endif
