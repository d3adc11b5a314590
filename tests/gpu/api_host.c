/* SPDX-License-Identifier: MIT */
/*
 * The cost of the CPU's loads and stores of a named buffer, beside CUDA's copies. `api_host NAME`
 * takes a buffer of another process, 32 MiB or more. It starts without CUDA, as a process that only
 * maps. It prints a line for each figure (description, tab, number), then the table: "size", and us
 * for each way.
 */
#include <gpushare.h>
#include <string.h>

#include "gpu_driver.h"

#define TABLE_MAX ((size_t)16 << 20)
#define STREAM ((size_t)32 << 20)
#define LOADS ((size_t)4 << 20) /* bytes; 70 ms at 60 MB/s */
#define BURST ((size_t)64 << 10)
#define TRIES 9
#define ALONE 101
#define QUIET_US 30

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;
static struct gpushare_map *map;
static char *mapped, *host;
static cu_deviceptr pointer;

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, gpushare_explain());
	exit(1);
}

static void do_store(size_t size)
{
	memcpy(mapped, host, size);
	must(gpushare_map_flush(map, 0, size), "gpushare_map_flush");
}

/*
 * Each store writes one word to another cache line: the CPU has nothing to combine and nothing to
 * wait for.
 */
static void do_post(size_t size)
{
	static size_t place;

	*(volatile uint64_t *)(mapped + place) = size;
	place = (place + 64) % STREAM;
}

static void do_burst(size_t size)
{
	memcpy(mapped, host, size);
}

/* Uses streaming stores; all of them have left the CPU when the call returns. */
static void do_copy(size_t size)
{
	must(gpushare_copy_to(buffer, 0, host, size), "gpushare_copy_to");
}

static void do_load(size_t size)
{
	memcpy(host, mapped, size);
}

/* One CPU load. A memcpy of 8 bytes makes two loads, which overlap. */
static void do_word(size_t size)
{
	*(uint64_t *)host = *(volatile uint64_t *)mapped + size;
}

static void do_into(size_t size)
{
	gpu_must(gpu.cuMemcpyHtoD_v2(pointer, host, size), "cuMemcpyHtoD");
}

static void do_out(size_t size)
{
	gpu_must(gpu.cuMemcpyDtoH_v2(host, pointer, size), "cuMemcpyDtoH");
}

/*
 * Return the median us of one call. Each try makes enough calls that the clock's cost is
 * negligible.
 */
static double cost_us(void (*way)(size_t size), size_t size, double about_us)
{
	size_t count = (size_t)(2000 / about_us) + 1;
	double times[TRIES];

	way(size);
	for (int i = 0; i < TRIES; i++) {
		double began = clock_us();

		for (size_t k = 0; k < count; k++)
			way(size);
		times[i] = (clock_us() - began) / (double)count;
	}
	return clock_median(times, TRIES);
}

/* Return the median us of a single call: the bus is quiet when the call starts. */
static double alone_us(void (*way)(size_t size), size_t size)
{
	double times[ALONE];

	for (int i = 0; i < ALONE; i++) {
		double began = clock_us();

		while (clock_us() - began < QUIET_US)
			;
		began = clock_us();
		way(size);
		times[i] = clock_us() - began;
	}
	return clock_median(times, ALONE);
}

static void say(const char *what, double number)
{
	printf("%s\t%.3f\n", what, number);
}

/* Measure the start of Vulkan, once in a process, then an import and a second map of a buffer. */
static void first_maps(void)
{
	struct gpushare_map *second;
	double began = clock_us(), times[4][TRIES];

	must(gpushare_map(buffer, 0, STREAM, GPUSHARE_READ | GPUSHARE_WRITE, &map), "gpushare_map");
	say("first map of the process, ms", (clock_us() - began) / 1e3);
	for (int i = 0; i < TRIES; i++) {
		began = clock_us();
		must(gpushare_map(buffer, 0, 1, GPUSHARE_READ, &second), "gpushare_map");
		times[0][i] = clock_us() - began;
		began = clock_us();
		must(gpushare_unmap(second), "gpushare_unmap");
		times[1][i] = clock_us() - began;
		began = clock_us();
		must(gpushare_unmap(map), "gpushare_unmap");
		times[2][i] = clock_us() - began;
		began = clock_us();
		must(gpushare_map(buffer, 0, STREAM, GPUSHARE_READ | GPUSHARE_WRITE, &map),
		     "gpushare_map");
		times[3][i] = clock_us() - began;
	}
	say("map of a buffer that is mapped already, us", clock_median(times[0], TRIES));
	say("its unmap, us", clock_median(times[1], TRIES));
	say("map of a buffer that is not, us", clock_median(times[3], TRIES));
	say("its unmap, us", clock_median(times[2], TRIES));
}

/* These figures don't check the contents; agree() does, through CUDA's mapping. */
static void figures(void)
{
	struct gpushare_map_info info;

	must(gpushare_map_info(map, &info), "gpushare_map_info");
	printf("made by %s, %s, %scoherent; atom\t%zu\n", info.backend,
	       info.caching == GPUSHARE_CACHED ? "cached" : "write-combined",
	       info.coherent ? "" : "not ", info.atom_size);
	say("store 8 B, us", cost_us(do_post, 8, 0.05));
	say("store 8 B and flush, us", cost_us(do_store, 8, 0.05));
	say("store 64 KiB, us", alone_us(do_burst, BURST));
	say("store 64 KiB by gpushare_copy_to, us", alone_us(do_copy, BURST));
	say("store 64 KiB and flush, one behind the other, us", cost_us(do_store, BURST, 5));
	say("stream to the mapping, GB/s", (double)STREAM / cost_us(do_store, STREAM, 2000) / 1e3);
	say("load 8 B, us", cost_us(do_word, 8, 1));
	say("memcpy of 8 B from the mapping, us", cost_us(do_load, 8, 1));
	say("stream from the mapping, MB/s", (double)LOADS / cost_us(do_load, LOADS, 50000));
}

static void table(void)
{
	printf("size\tstore\tload\tcuMemcpyHtoD\tcuMemcpyDtoH\n");
	for (size_t size = 1; size <= TABLE_MAX; size *= 4)
		printf("%zu\t%.3f\t%.3f\t%.3f\t%.3f\n", size,
		       cost_us(do_store, size, 0.05 + (double)size / 13e3),
		       cost_us(do_load, size, 1 + (double)size / 60),
		       cost_us(do_into, size, 3 + (double)size / 50e3),
		       cost_us(do_out, size, 3 + (double)size / 50e3));
}

/* CUDA copies out what was stored, and the CPU loads what CUDA copied in. */
static void agree(const char *name)
{
	struct gpushare_buffer *attached;
	int wrong = 0;

	must(gpushare_attach(session, name, NULL, &attached), "gpushare_attach");
	pointer = gpushare_pointer(attached);
	for (size_t i = 0; i < STREAM; i++)
		host[i] = (char)(i * 2654435761u >> 13);
	do_store(STREAM);
	memset(host, 0, STREAM);
	do_out(STREAM);
	for (size_t i = 0; i < STREAM; i++)
		wrong += host[i] != (char)(i * 2654435761u >> 13);
	for (size_t i = 0; i < LOADS; i++)
		host[i] = (char)(i * 40503u >> 7);
	do_into(LOADS);
	memset(host, 0, LOADS);
	do_load(LOADS);
	for (size_t i = 0; i < LOADS; i++)
		wrong += host[i] != (char)(i * 40503u >> 7);
	printf("bytes that CPU and CUDA see differently\t%d\n", wrong);
}

int main(int argc, char **argv)
{
	const struct gpushare_attach_options without_cuda = {.host_only = 1};

	if (argc != 2) {
		fprintf(stderr, "usage: api_host NAME\n");
		return 2;
	}
	must(gpushare_open(NULL, &session), "gpushare_open");
	must(gpushare_attach(session, argv[1], &without_cuda, &buffer), "gpushare_attach");
	host = aligned_alloc(4096, STREAM);
	gpu_must(!host, "memory");
	memset(host, 1, STREAM);
	first_maps();
	mapped = gpushare_map_data(map);
	figures();
	free(host);
	gpu_start();
	gpu_must(gpu.cuMemHostAlloc((void **)&host, STREAM, 0), "cuMemHostAlloc");
	agree(argv[1]);
	table();
	must(gpushare_unmap(map), "gpushare_unmap");
	must(gpushare_close(session), "gpushare_close");
	gpu_must(gpu.cuMemFreeHost(host), "cuMemFreeHost");
	return 0;
}
