/* SPDX-License-Identifier: MIT */
/*
 * Compares the ways in which the CPU can copy to and from a map of another process's buffer NAME,
 * 16 MiB or more: `host_ways NAME`. A line for each way and direction: the way, "to" or "from", and
 * MB/s at each of SIZES. The first line names the columns. The host's side is pageable memory.
 */
#include <gpushare.h>
#include <string.h>

#include "gpu_driver.h"
#include "core/copy/host_copy.h"

/* S(KiB) */
#define SIZES(S) S(4) S(64) S(1024) S(4096) S(16384)
#define MOST ((size_t)16 << 20)
#define LOAD_MOST ((size_t)1 << 20) /* 130 ms if loaded word by word */
#define TRIES 7
#define TRY_US 3000

typedef void copy(char *to, const char *from, size_t size);

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, gpushare_explain());
	exit(1);
}

static void plainly(char *to, const char *from, size_t size)
{
	memcpy(to, from, size);
}

/* Return bytes per us, the median of TRIES. */
static double rate(copy *way, char *to, const char *from, size_t size)
{
	double began = clock_us(), times[TRIES];
	size_t count;

	way(to, from, size);
	count = (size_t)(TRY_US / (clock_us() - began)) + 1;
	for (int i = 0; i < TRIES; i++) {
		began = clock_us();
		for (size_t k = 0; k < count; k++)
			way(to, from, size);
		times[i] = (clock_us() - began) / (double)count;
	}
	return (double)size / clock_median(times, TRIES);
}

static void say(const char *name, const char *direction, copy *way, char *to, const char *from,
		size_t most)
{
	printf("%s\t%s", name, direction);
#define S(kib) \
	if ((size_t)kib << 10 <= most) \
		printf("\t%.0f", rate(way, to, from, (size_t)kib << 10)); \
	else \
		printf("\t");
	SIZES(S)
#undef S
	printf("\n");
}

static void say_both(const char *name, copy *to, copy *from, char *device, char *host)
{
	say(name, "to", to, device, host, MOST);
	say(name, "from", from, host, device, LOAD_MOST);
}

int main(int argc, char **argv)
{
	const struct gpushare_attach_options options = {.host_only = 1};
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct gpushare_map *map;
	char *host = malloc(MOST), *device;

	if (argc != 2 || !host)
		return 2;
	memset(host, 1, MOST);
	must(gpushare_open(NULL, &session), "gpushare_open");
	must(gpushare_attach(session, argv[1], &options, &buffer), "gpushare_attach");
	must(gpushare_map(buffer, 0, MOST, GPUSHARE_READ | GPUSHARE_WRITE, &map), "gpushare_map");
	device = gpushare_map_data(map);
	printf("way\tdirection");
#define S(kib) printf("\t%d KiB", kib);
	SIZES(S)
#undef S
	printf("\n");
	say_both("memcpy", plainly, plainly, device, host);
	for (const struct host_copy_way *way = host_copy_ways; way->name; way++)
		if (way->usable())
			say_both(way->name, way->to, way->from, device, host);
	must(gpushare_unmap(map), "gpushare_unmap");
	must(gpushare_detach(buffer), "gpushare_detach");
	must(gpushare_close(session), "gpushare_close");
	free(host);
	return 0;
}
