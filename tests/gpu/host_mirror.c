/* SPDX-License-Identifier: MIT */
/*
 * A mirror's round trip beside the driver's own copies of pinned memory: `host_mirror NAME
 * REPEATS`. Each round measures every way once, so that a disturbance of the host affects all ways.
 * Prints for each: name, median, least, most, in GB/s; then the time of the first opening in ms,
 * which includes pinning.
 */
#include <gpushare.h>
#include <string.h>

#include "gpu_driver.h"

#define REPEATS_MAX 64

static struct gpushare_buffer *buffer;
static struct gpushare_mirror *mirror;
static size_t size;
static void *pinned;

static int pinned_from(void)
{
	return gpu.cuMemcpyDtoH_v2(pinned, gpushare_pointer(buffer), size);
}

static int mirror_open(void)
{
	return gpushare_mirror_open(buffer, 0, size, GPUSHARE_READ | GPUSHARE_WRITE, &mirror);
}

static int pinned_to(void)
{
	return gpu.cuMemcpyHtoD_v2(gpushare_pointer(buffer), pinned, size);
}

static int mirror_close(void)
{
	return gpushare_mirror_close(mirror);
}

/*
 * W(function, its text in the table), in the order of a round: each write follows a read of the
 * same bytes
 */
#define WAYS(W) \
	W(pinned_from, "cuMemcpyDtoH into pinned memory (the host's rate)") \
	W(pinned_to, "cuMemcpyHtoD from pinned memory (the host's rate)") \
	W(mirror_open, "gpushare_mirror_open, filled") \
	W(mirror_close, "gpushare_mirror_close, written back")

static struct way {
	const char *name;
	int (*run)(void);
	double rates[REPEATS_MAX];
} ways[] = {
#define W(function, text) {.name = text, .run = function},
    WAYS(W)
#undef W
};
#define WAY_COUNT (sizeof(ways) / sizeof(*ways))

static double one_us(const struct way *way)
{
	double started = clock_us();
	int result = way->run();

	if (result) {
		fprintf(stderr, "%s: %d: %s\n", way->name, result, gpushare_explain());
		exit(1);
	}
	return clock_us() - started;
}

/* The driver must read what a mirror has written back. */
static void verify(void)
{
	unsigned char *bytes;

	gpu_must(mirror_open(), "gpushare_mirror_open");
	bytes = gpushare_mirror_data(mirror);
	for (size_t i = 0; i < size; i++)
		bytes[i] ^= (unsigned char)(i * 31 + 7);
	gpu_must(gpushare_mirror_sync(mirror), "gpushare_mirror_sync");
	gpu_must(pinned_from(), "cuMemcpyDtoH");
	gpu_must(memcmp(pinned, bytes, size) != 0, "other bytes than were written back");
	gpushare_mirror_drop(mirror);
}

int main(int argc, char **argv)
{
	size_t repeats = argc == 3 ? strtoul(argv[2], NULL, 0) : 0;
	struct gpushare_session *session;
	double first = 0;

	if (!repeats || repeats > REPEATS_MAX) {
		fprintf(stderr, "usage: host_mirror NAME REPEATS\n");
		return 2;
	}
	gpu_start();
	if (gpushare_open(NULL, &session) || gpushare_attach(session, argv[1], NULL, &buffer)) {
		fprintf(stderr, "host_mirror: %s\n", gpushare_explain());
		return 1;
	}
	size = gpushare_size(buffer);
	gpu_must(gpu.cuMemHostAlloc(&pinned, size, 0), "cuMemHostAlloc");
	for (size_t i = 0; i < WAY_COUNT; i++) {
		double took = one_us(&ways[i]);

		if (ways[i].run == mirror_open)
			first = took;
	}
	verify();
	for (size_t round = 0; round < repeats; round++)
		for (size_t i = 0; i < WAY_COUNT; i++)
			ways[i].rates[round] = (double)size / one_us(&ways[i]) / 1e3;
	for (size_t i = 0; i < WAY_COUNT; i++) {
		double median = clock_median(ways[i].rates, repeats);

		printf("%s\t%.2f\t%.2f\t%.2f\n", ways[i].name, median, ways[i].rates[0],
		       ways[i].rates[repeats - 1]);
	}
	printf("first\t%.1f\n", first / 1e3);
	gpu_must(gpu.cuMemFreeHost(pinned), "cuMemFreeHost");
	return gpushare_close(session) ? 1 : 0;
}
