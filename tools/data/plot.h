/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PLOT_H
#define GPUSHARE_TOOLS_PLOT_H
/* A histogram of the values, and the mean of each slice along the first axis, as lines of text. */
#include <stdio.h>

#include "range.h"
#include "shape.h"

#define PLOT_BINS 16
#define PLOT_WIDTH_LEAST 40 /* characters per line */
#define PLOT_WIDTH_MOST 400
#define PLOT_DOTS (2 * PLOT_WIDTH_MOST) /* a braille character is two dots wide */

struct plot {
	enum dtype dtype;
	struct range range;
	uint64_t slices, slice; /* extent of the first axis, and elements of one slice */
	uint64_t at;		/* index of the next element */
	int width, dots;
	uint64_t bins[PLOT_BINS];
	uint64_t others; /* values that are not finite */
	double sums[PLOT_DOTS];
	uint64_t counts[PLOT_DOTS];
};

/* `range`: of all values, from an earlier pass. If the buffer has changed since then, a value may
 * be outside of the range: the histogram counts it in the nearest bin. */
void plot_begin(struct plot *plot, enum dtype dtype, const struct shape *shape,
		const struct range *range, int width);
/* Add whole elements, in total at most as many as the shape has. */
void plot_add(struct plot *plot, const void *data, size_t size);
/* `colour`, `plain`: escape sequences before and after each bar or row of dots, or "". */
void plot_print(const struct plot *plot, const char *colour, const char *plain, FILE *out);

#endif
