/* SPDX-License-Identifier: MIT */
/*
 * gpushare_copy_to() and gpushare_copy_from() of another process's buffer NAME, 16 MiB or more, in
 * each way: `host_copies NAME`.
 *
 * GPU: before this process has mapped anything. CPU: through a host_only attachment. Chosen:
 * through the CUDA attachment, after the buffer was mapped.
 *
 * Prints "size" and us for each way; then a line for each figure: description, tab, number.
 */
#include <gpushare.h>
#include <stdbool.h>
#include <string.h>

#include "gpu_driver.h"

#define MOST ((size_t)16 << 20)
#define LOAD_MOST ((size_t)1 << 20)  /* the CPU's loads take 1.3 ms */
#define REPEATED ((size_t)128 << 10) /* copied repeatedly, as gdrcopy_copybw does */
#define TRIES 7
#define SIZES 13

static struct gpushare_session *session;
static struct gpushare_buffer *cuda, *host_only;
static char *host;

/* W(name, column title) */
#define WAYS(W) \
	W(GPU, "GPU") \
	W(CPU, "CPU") \
	W(CHOSEN, "chosen")

enum way {
#define W(name, text) name,
	WAYS(W) WAY_COUNT
#undef W
};

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, gpushare_explain());
	exit(1);
}

static void one(struct gpushare_buffer *buffer, bool to, size_t size)
{
	must(to ? gpushare_copy_to(buffer, 0, host, size)
		: gpushare_copy_from(buffer, 0, host, size),
	     to ? "gpushare_copy_to" : "gpushare_copy_from");
}

/*
 * Return the median us of one call. Each try makes enough calls that the clock's cost is
 * negligible.
 */
static double cost_us(enum way way, bool to, size_t size)
{
	struct gpushare_buffer *buffer = way == CPU ? host_only : cuda;
	double times[TRIES], began = clock_us();
	size_t count;

	one(buffer, to, size);
	one(buffer, to, size);
	count = (size_t)(1000 / (clock_us() - began)) + 1;
	for (int i = 0; i < TRIES; i++) {
		began = clock_us();
		for (size_t k = 0; k < count; k++)
			one(buffer, to, size);
		times[i] = (clock_us() - began) / (double)count;
	}
	return clock_median(times, TRIES);
}

static void measure(enum way way, double out[SIZES][WAY_COUNT][2])
{
	size_t size = 1;

	for (int i = 0; i < SIZES; i++, size *= 4)
		for (int to = 0; to < 2; to++)
			out[i][way][to] =
			    way == CPU && !to && size > LOAD_MOST ? 0 : cost_us(way, to, size);
}

/*
 * Count differences: a mirror of an unaligned part must read the right bytes, and write its change
 * back.
 */
static int mirror_differs(char *other, size_t at, size_t size)
{
	struct gpushare_mirror *mirror;
	int wrong;

	must(gpushare_mirror_open(cuda, at, size, GPUSHARE_READ | GPUSHARE_WRITE, &mirror),
	     "gpushare_mirror_open");
	wrong = memcmp(gpushare_mirror_data(mirror), host + at, size) != 0;
	host[at] = *(char *)gpushare_mirror_data(mirror) ^= 0x5a;
	must(gpushare_mirror_close(mirror), "gpushare_mirror_close");
	must(gpushare_copy_from(host_only, at, other, size), "gpushare_copy_from");
	return wrong + (memcmp(other, host + at, size) != 0);
}

/* Bytes that one way copied in must be what the others copy out, at any offset. */
static int differences(void)
{
	char *other = malloc(LOAD_MOST);
	int wrong = 0;

	gpu_must(!other, "malloc");
	for (size_t i = 0; i < LOAD_MOST; i++)
		host[i] = (char)(i * 2654435761u >> 13);
	for (size_t at = 0; at < 129; at += 3) {
		size_t size = LOAD_MOST - 2 * at - at % 7;

		must(gpushare_copy_to(host_only, at, host + at, size), "gpushare_copy_to");
		gpu_must(gpu.cuMemcpyDtoH_v2(other, gpushare_pointer(cuda) + at, size),
			 "cuMemcpyDtoH");
		wrong += memcmp(other, host + at, size) != 0;
		memset(other, 0, size);
		must(gpushare_copy_from(host_only, at + 1, other, size - 1), "gpushare_copy_from");
		wrong += memcmp(other, host + at + 1, size - 1) != 0;
		wrong += mirror_differs(other, at + 1, size - 2);
		host[at] ^= 1;
	}
	free(other);
	return wrong;
}

static void print(double us[SIZES][WAY_COUNT][2])
{
	size_t size = 1;

	printf("size");
	for (int to = 1; to >= 0; to--) {
#define W(name, text) printf("\t%s %s", to ? "to" : "from", text);
		WAYS(W)
#undef W
	}
	printf("\n");
	for (int i = 0; i < SIZES; i++, size *= 4) {
		printf("%zu", size);
		for (int to = 1; to >= 0; to--)
			for (int way = 0; way < WAY_COUNT; way++)
				printf("\t%.2f", us[i][way][to]);
		printf("\n");
	}
	printf("8 B to, by the CPU, us\t%.3f\n", cost_us(CPU, true, 8));
	printf("8 B from, by the CPU, us\t%.3f\n", cost_us(CPU, false, 8));
	printf("64 KiB to, by the CPU, us\t%.3f\n", us[8][CPU][1]);
	printf("128 KiB to, by the CPU, GB/s\t%.3f\n",
	       (double)REPEATED / cost_us(CPU, true, REPEATED) / 1e3);
	printf("128 KiB from, by the CPU, MB/s\t%.3f\n",
	       (double)REPEATED / cost_us(CPU, false, REPEATED));
	printf("16 MiB to, by the CPU, GB/s\t%.3f\n", (double)MOST / us[12][CPU][1] / 1e3);
	printf("1 MiB from, by the CPU, MB/s\t%.3f\n", (double)LOAD_MOST / us[10][CPU][0]);
}

int main(int argc, char **argv)
{
	const struct gpushare_attach_options without = {.host_only = 1};
	static double us[SIZES][WAY_COUNT][2];

	if (argc != 2) {
		fprintf(stderr, "usage: host_copies NAME\n");
		return 2;
	}
	gpu_start();
	host = malloc(MOST);
	gpu_must(!host, "malloc");
	memset(host, 1, MOST);
	must(gpushare_open(NULL, &session), "gpushare_open");
	must(gpushare_attach(session, argv[1], NULL, &cuda), "gpushare_attach");
	must(gpushare_attach(session, argv[1], &without, &host_only), "gpushare_attach");
	measure(GPU, us);
	measure(CPU, us);
	measure(CHOSEN, us);
	print(us);
	printf("bytes that CPU and CUDA see differently\t%d\n", differences());
	free(host);
	return gpushare_close(session) ? 1 : 0;
}
