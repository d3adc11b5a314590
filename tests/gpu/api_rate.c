/* SPDX-License-Identifier: MIT */
/*
 * The rate at which a named buffer of another process reaches the host: `api_rate NAME REPEATS
 * FILE`. Each round measures every way once, so that a disturbance of the host affects all ways.
 * FILE is on a tmpfs and already has the buffer's size. Prints for each way: name, median, least,
 * most, in GB/s.
 */
#include <fcntl.h>
#include <gpushare.h>
#include <string.h>
#include <unistd.h>

#include "gpu_driver.h"

#define REPEATS_MAX 64

static struct gpushare_buffer *buffer;
static size_t size, counted;
static void *pinned, *pageable;
static int null_fd, file_fd;

static int count_bytes(const void *data, size_t bytes, void *user)
{
	counted += bytes;
	return 0;
}

static int write_bytes(const void *data, size_t bytes, void *fd)
{
	for (const char *at = data; bytes;) {
		ssize_t done = write(*(int *)fd, at, bytes);

		if (done <= 0)
			return 1;
		at += done;
		bytes -= (size_t)done;
		counted += (size_t)done;
	}
	return 0;
}

static int pinned_copy(void)
{
	counted = size;
	return gpu.cuMemcpyDtoH_v2(pinned, gpushare_pointer(buffer), size);
}

static int read_counting(void)
{
	return gpushare_read(buffer, 0, size, count_bytes, NULL);
}

static int copy_pageable(void)
{
	counted = size;
	return gpushare_copy_from(buffer, 0, pageable, size);
}

static int read_null(void)
{
	return gpushare_read(buffer, 0, size, write_bytes, &null_fd);
}

static int read_file(void)
{
	return lseek(file_fd, 0, SEEK_SET) || gpushare_read(buffer, 0, size, write_bytes, &file_fd);
}

/* W(function, its text in the table) */
#define WAYS(W) \
	W(pinned_copy, "cuMemcpyDtoH into pinned memory (the host's rate)") \
	W(read_counting, "gpushare_read, a sink that counts") \
	W(read_null, "gpushare_read, written to /dev/null") \
	W(read_file, "gpushare_read, written to a pre-sized tmpfs file") \
	W(copy_pageable, "gpushare_copy_from into pageable memory")

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

static double one_rate(const struct way *way)
{
	double started = clock_us();
	int result;

	counted = 0;
	result = way->run();
	if (result || counted != size) {
		fprintf(stderr, "%s: %d after %zu bytes: %s\n", way->name, result, counted,
			gpushare_explain());
		exit(1);
	}
	return (double)size / (clock_us() - started) / 1e3;
}

int main(int argc, char **argv)
{
	size_t repeats = argc == 4 ? strtoul(argv[2], NULL, 0) : 0;
	struct gpushare_session *session;

	if (!repeats || repeats > REPEATS_MAX) {
		fprintf(stderr, "usage: api_rate NAME REPEATS FILE\n");
		return 2;
	}
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	file_fd = open(argv[3], O_WRONLY | O_CLOEXEC);
	gpu_start();
	if (gpushare_open(NULL, &session) || gpushare_attach(session, argv[1], NULL, &buffer)) {
		fprintf(stderr, "api_rate: %s\n", gpushare_explain());
		return 1;
	}
	size = gpushare_size(buffer);
	pageable = malloc(size);
	gpu_must(null_fd < 0 || file_fd < 0 || !pageable, "set-up");
	memset(pageable, 1, size);
	gpu_must(gpu.cuMemHostAlloc(&pinned, size, 0), "cuMemHostAlloc");
	for (size_t i = 0; i < WAY_COUNT; i++)
		one_rate(&ways[i]);
	for (size_t round = 0; round < repeats; round++)
		for (size_t i = 0; i < WAY_COUNT; i++)
			ways[i].rates[round] = one_rate(&ways[i]);
	for (size_t i = 0; i < WAY_COUNT; i++) {
		double median = clock_median(ways[i].rates, repeats);

		printf("%s\t%.2f\t%.2f\t%.2f\n", ways[i].name, median, ways[i].rates[0],
		       ways[i].rates[repeats - 1]);
	}
	gpu_must(gpu.cuMemFreeHost(pinned), "cuMemFreeHost");
	free(pageable);
	return gpushare_close(session) ? 1 : 0;
}
