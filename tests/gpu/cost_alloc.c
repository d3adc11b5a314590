// SPDX-License-Identifier: MIT
/*
 * The cost in microseconds of a named allocation of mapped memory, in turns with a cuMemAlloc of
 * the same size: `cost_alloc SIZE ROUNDS`. If the device lacks room, it exits with 77.
 */
#include "cost_steps.h"

#define WARM_UP 3

static struct gpushare_session *session;
static double free_us;

static double bare(size_t size)
{
	double started = clock_us(), took;
	cu_deviceptr pointer;

	gpu_must(cost_real.cuMemAlloc_v2(&pointer, size), "cuMemAlloc");
	took = clock_us() - started;
	started = clock_us();
	gpu_must(cost_real.cuMemFree_v2(pointer), "cuMemFree");
	free_us = clock_us() - started;
	return took;
}

static double ours(size_t size)
{
	const struct gpushare_alloc_options mapped = {.device = 0, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_buffer *buffer;
	double started, took, steps[COST_COUNT];

	memset(cost_us, 0, sizeof(cost_us));
	started = clock_us();
	cost_must(gpushare_alloc_with(session, "cost", size, &mapped, &buffer),
		  "gpushare_alloc_with");
	took = clock_us() - started;
	memcpy(steps, cost_us, sizeof(steps));
	started = clock_us();
	cost_must(gpushare_free(buffer), "gpushare_free");
	free_us = clock_us() - started;
	memcpy(cost_us, steps, sizeof(steps));
	return took;
}

int main(int argc, char **argv)
{
	static struct cost cost = {.name = "alloc"};
	static double bare_free[COST_ROUNDS_MAX], our_free[COST_ROUNDS_MAX];
	size_t size = argc == 3 ? strtoul(argv[1], NULL, 0) : 0, room = 0, all = 0;
	size_t rounds = argc == 3 ? strtoul(argv[2], NULL, 0) : 0;

	if (!size || !rounds || rounds > COST_ROUNDS_MAX) {
		fprintf(stderr, "usage: cost_alloc SIZE ROUNDS\n");
		return 2;
	}
	cost_start();
	gpu_must(cost_real.cuMemGetInfo_v2(&room, &all), "cuMemGetInfo");
	if (size > room / 10 * 9) {
		printf("%zu bytes are free\n", room);
		return 77;
	}
	cost_must(gpushare_open(NULL, &session), "gpushare_open");
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		double bare_us = bare(size), bare_free_us = free_us, ours_us = ours(size);

		if (i < WARM_UP)
			continue;
		bare_free[cost.rounds] = bare_free_us;
		our_free[cost.rounds] = free_us;
		cost_add(&cost, bare_us, ours_us);
	}
	cost_report(&cost);
	cost_say("free", "bare", bare_free, rounds);
	cost_say("free", "ours", our_free, rounds);
	cost_must(gpushare_close(session), "gpushare_close");
	return 0;
}
