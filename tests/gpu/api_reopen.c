/* SPDX-License-Identifier: MIT */
/*
 * A kept buffer, opened again by another process. `api_reopen make NAME SIZE` leaves a buffer of
 * SIZE bytes of value 90. `api_reopen open NAME` attaches it and prints three times in ms: for
 * CUDA's start, for the attach, and for reading the first and last byte.
 */
#include <gpushare.h>
#include <string.h>

#include "gpu_driver.h"

#define BYTE 90

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "api_reopen: %s: %s\n", what, gpushare_explain());
	exit(1);
}

static int make(const char *name, size_t size)
{
	const struct gpushare_alloc_options kept = {.device = 0, .flags = GPUSHARE_FLAG_KEEP};

	gpu_start();
	must(gpushare_open(NULL, &session), "gpushare_open");
	must(gpushare_alloc_with(session, name, size, &kept, &buffer), name);
	gpu_must(gpu.cuMemsetD8_v2(gpushare_pointer(buffer), BYTE, size), "cuMemsetD8");
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	must(gpushare_close(session), "gpushare_close");
	return 0;
}

static int reopen(const char *name)
{
	double began = clock_us(), cuda, there;
	unsigned char first = 0, last = 0;
	size_t size;

	gpu_start();
	cuda = clock_us();
	must(gpushare_open(NULL, &session), "gpushare_open");
	must(gpushare_attach(session, name, NULL, &buffer), name);
	there = clock_us();
	size = gpushare_size(buffer);
	gpu_must(gpu.cuMemcpyDtoH_v2(&first, gpushare_pointer(buffer), 1), "cuMemcpyDtoH");
	gpu_must(gpu.cuMemcpyDtoH_v2(&last, gpushare_pointer(buffer) + size - 1, 1),
		 "cuMemcpyDtoH");
	gpu_must(first != BYTE || last != BYTE, "what was kept");
	printf("%.3f %.3f %.3f\n", (cuda - began) / 1e3, (there - cuda) / 1e3,
	       (clock_us() - there) / 1e3);
	must(gpushare_close(session), "gpushare_close");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "make"))
		return make(argv[2], strtoul(argv[3], NULL, 0));
	if (argc == 3 && !strcmp(argv[1], "open"))
		return reopen(argv[2]);
	fprintf(stderr, "usage: api_reopen make NAME SIZE | open NAME\n");
	return 2;
}
