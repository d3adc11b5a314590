/* SPDX-License-Identifier: MIT */
/*
 * An unmodified program that times its own cuMemAlloc and cuMemFree: COUNT pairs of SIZE bytes.
 * Prints: mean of a pair, median of an alloc, median of a free, in microseconds.
 *
 * With a third argument TURN it makes COUNT pairs through the calls that dlsym returns and COUNT
 * through the driver's own, in turns of TURN pairs, and prints both means. Their difference is a
 * preload's cost, without the variation between processes.
 */
#include <stdbool.h>

#include "gpu_driver.h"

#define WARM_UP 200

struct pair {
	cu_cuMemAlloc_v2_call *alloc;
	cu_cuMemFree_v2_call *free;
};

/* Only the C library's dlsym has a symbol version, so dlvsym does not find a preload's. */
static struct pair drivers_own(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *(*find)(void *, const char *) = NULL;

	for (size_t i = 0; !find && i < sizeof(versions) / sizeof(*versions); i++)
		find = (void *(*)(void *, const char *))dlvsym(RTLD_DEFAULT, "dlsym", versions[i]);
	gpu_must(!find, "dlvsym of dlsym");
	return (struct pair){(cu_cuMemAlloc_v2_call *)find(library, "cuMemAlloc_v2"),
			     (cu_cuMemFree_v2_call *)find(library, "cuMemFree_v2")};
}

static double turn_us(const struct pair *pair, size_t count, size_t size)
{
	double started = clock_us();

	for (size_t i = 0; i < count; i++) {
		cu_deviceptr pointer;

		gpu_must(pair->alloc(&pointer, size), "cuMemAlloc");
		gpu_must(pair->free(pointer), "cuMemFree");
	}
	return clock_us() - started;
}

static int in_turns(size_t count, size_t size, size_t turn)
{
	const struct pair found = {gpu.cuMemAlloc_v2, gpu.cuMemFree_v2}, own = drivers_own();
	double found_us = 0, own_us = 0;
	size_t done = 0;

	turn_us(&found, WARM_UP, size);
	turn_us(&own, WARM_UP, size);
	for (; done < count; done += turn) {
		bool own_first = done / turn % 2;

		if (own_first)
			own_us += turn_us(&own, turn, size);
		found_us += turn_us(&found, turn, size);
		if (!own_first)
			own_us += turn_us(&own, turn, size);
	}
	printf("%.4f %.4f\n", found_us / (double)done, own_us / (double)done);
	return 0;
}

int main(int argc, char **argv)
{
	size_t count = argc >= 3 ? strtoul(argv[1], NULL, 0) : 0;
	size_t size = argc >= 3 ? strtoul(argv[2], NULL, 0) : 0;
	size_t turn = argc == 4 ? strtoul(argv[3], NULL, 0) : 0;
	double *alloc_us = calloc(count + 1, sizeof(*alloc_us)),
	       *free_us = calloc(count + 1, sizeof(*free_us));
	double started = 0, took, before, between;

	if (!count || !size || !alloc_us || !free_us) {
		fprintf(stderr, "usage: app_pairs COUNT SIZE [TURN]\n");
		return 2;
	}
	gpu_start();
	if (turn)
		return in_turns(count, size, turn);
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
