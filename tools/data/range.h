/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_RANGE_H
#define GPUSHARE_TOOLS_RANGE_H
/* The least and the most finite value, and where others lie between them. */
#include <math.h>

#include "dtype.h"

struct range {
	double least, most; /* least > most: there is no finite value */
	uint64_t nans;
};

#define RANGE_EMPTY ((struct range){.least = (double)INFINITY, .most = -(double)INFINITY})

/* Add whole elements. */
void range_add(struct range *range, enum dtype dtype, const void *data, size_t size);
/* 0 for the least value to 1 for the most, also for values outside; 0 for a NaN. */
double range_part(const struct range *range, double value);

#endif
