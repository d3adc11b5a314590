/* SPDX-License-Identifier: MIT */
/*
 * An unmodified program that times its own cuMemAlloc and cuMemFree: COUNT pairs of SIZE bytes.
 * Prints: mean of a pair, median of an alloc, median of a free, in microseconds.
 */
#include "gpu_driver.h"

#define WARM_UP 200

int main(int argc, char **argv)
{
	size_t count = argc == 3 ? strtoul(argv[1], NULL, 0) : 0;
	size_t size = argc == 3 ? strtoul(argv[2], NULL, 0) : 0;
	double *alloc_us = calloc(count + 1, sizeof(*alloc_us)), *free_us = calloc(count + 1, sizeof(*free_us));
	double started = 0, took, before, between;

	if (!count || !size || !alloc_us || !free_us) {
		fprintf(stderr, "usage: app_pairs COUNT SIZE\n");
		return 2;
	}
	gpu_start();
	for (size_t i = 0; i < count + WARM_UP; i++) {
		cu_deviceptr pointer;

		before = clock_us();
		if (i == WARM_UP)
			started = before;
		gpu_must(gpu.cuMemAlloc_v2(&pointer, size), "cuMemAlloc");
		between = clock_us();
		gpu_must(gpu.cuMemFree_v2(pointer), "cuMemFree");
		if (i < WARM_UP)
			continue;
		alloc_us[i - WARM_UP] = between - before;
		free_us[i - WARM_UP] = clock_us() - between;
	}
	took = clock_us() - started;
	printf("%.4f %.4f %.4f\n", took / (double)count, clock_median(alloc_us, count),
	       clock_median(free_us, count));
	free(alloc_us);
	free(free_us);
	return 0;
}
