/* SPDX-License-Identifier: MIT */
#include "plot.h"

#include <inttypes.h>
#include <string.h>

#define LABEL 12 /* width of a bin's first value, and of its count */
#define ROWS 2	 /* of braille characters, each four dots high */
#define HIGH (ROWS * 4)

void plot_begin(struct plot *plot, enum dtype dtype, const struct shape *shape,
		const struct range *range, int width)
{
	uint64_t count = 0;

	memset(plot, 0, sizeof(*plot));
	plot->dtype = dtype;
	plot->range = *range;
	plot->width = width < PLOT_WIDTH_LEAST	? PLOT_WIDTH_LEAST
		      : width > PLOT_WIDTH_MOST ? PLOT_WIDTH_MOST
						: width;
	plot->slices = shape->rank ? shape->extent[0] : 1;
	if (shape_count(shape, &count) && plot->slices)
		plot->slice = count / plot->slices;
	plot->dots = plot->slices < 2 * (uint64_t)plot->width ? (int)plot->slices : 2 * plot->width;
}

void plot_add(struct plot *plot, const void *data, size_t size)
{
	size_t step = dtype_traits(plot->dtype)->size;
	const unsigned char *from = data, *end = from + size;

	for (; from < end; from += step, plot->at++) {
		double value = dtype_real(plot->dtype, from);
		uint64_t slice = plot->at / plot->slice;
		int dot = (int)((double)slice * plot->dots / (double)plot->slices);
		int bin = (int)(range_part(&plot->range, value) * PLOT_BINS);

		if (!isfinite(value)) {
			plot->others++;
			continue;
		}
		plot->bins[bin < PLOT_BINS ? bin : PLOT_BINS - 1]++;
		plot->sums[dot] += value;
		plot->counts[dot]++;
	}
}

static void print_bins(const struct plot *plot, const char *colour, const char *plain, FILE *out)
{
	double least = plot->range.least, step = (plot->range.most / PLOT_BINS) - least / PLOT_BINS;
	int room = plot->width - 2 * LABEL - 2;
	uint64_t most = 1;

	for (int i = 0; i < PLOT_BINS; i++)
		most = plot->bins[i] > most ? plot->bins[i] : most;
	for (int i = 0; i < PLOT_BINS && (!i || step > 0); i++) {
		double first = least + step * i;
		int bar = (int)ceil((double)plot->bins[i] / (double)most * room);

		fprintf(out, "%*.5g %s", LABEL, fabs(first) < step / 1e4 ? 0 : first, colour);
		for (int x = 0; x < room; x++)
			fputs(x < bar ? "█" : " ", out);
		fprintf(out, "%s %*" PRIu64 "\n", plain, LABEL, plot->bins[i]);
	}
}

static double mean(const struct plot *plot, int dot)
{
	return plot->sums[dot] / (double)plot->counts[dot];
}

/* The height of column `dot` in dots: at least 1 if its slices have a finite value. */
static int height(const struct plot *plot, const struct range *means, int dot)
{
	if (dot >= plot->dots || !plot->counts[dot])
		return 0;
	return 1 + (int)lround(range_part(means, mean(plot, dot)) * (HIGH - 1));
}

/* A braille character of Unicode is U+2800 plus a bit for each dot. */
static void print_row(const struct plot *plot, const struct range *means, int row, FILE *out)
{
	static const unsigned char bits[4][2] = {{0x40, 0x80}, {4, 0x20}, {2, 0x10}, {1, 8}};

	for (int dot = 0; dot < plot->dots; dot += 2) {
		unsigned int pattern = 0;

		for (int y = 0; y < 4; y++)
			for (int x = 0; x < 2; x++)
				if (height(plot, means, dot + x) > row * 4 + y)
					pattern |= bits[y][x];
		fprintf(out, "\xe2%c%c", (int)(0xa0 | pattern >> 6), (int)(0x80 | (pattern & 63)));
	}
}

void plot_print(const struct plot *plot, const char *colour, const char *plain, FILE *out)
{
	struct range means = RANGE_EMPTY;

	if (plot->range.least <= plot->range.most)
		print_bins(plot, colour, plain, out);
	if (plot->others)
		fprintf(out, "%*" PRIu64 " not finite\n", LABEL, plot->others);
	for (int i = 0; i < plot->dots; i++)
		range_add(&means, DTYPE_F64, &(double){mean(plot, i)}, sizeof(double));
	if (means.least > means.most)
		return;
	fprintf(out, "mean of %" PRIu64 " slices along the first axis: %.5g..%.5g\n", plot->slices,
		means.least, means.most);
	for (int row = ROWS - 1; row >= 0; row--) {
		fputs(colour, out);
		print_row(plot, &means, row, out);
		fprintf(out, "%s\n", plain);
	}
}
