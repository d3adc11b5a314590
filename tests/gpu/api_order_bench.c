/* SPDX-License-Identifier: MIT */
/*
 * The cost of publishing and acquiring between two processes. `api_order_bench COUNT` prints lines
 * "WHAT<tab>MEDIAN<tab>P99", in us. There are two buffers; each side publishes one.
 */
#include <gpushare.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_driver.h"

#define SIZE 4096
#define BATCH 64 /* calls in a stream before it is synchronized */
#define PATIENCE_MS 60000
#define WORD_APART 128 /* bytes between the two sides' words */

#define MUST(call) must(call, #call)

struct side {
	struct gpushare_session *session;
	struct gpushare_buffer *mine, *theirs;
	int to, from; /* pipe ends, for meet() */
	size_t count;
	double *first, *second; /* times of two kinds of calls */
	void *words;		/* a page shared with the other side, for the driver's own calls */
};

static void must(int status, const char *call)
{
	if (!status)
		return;
	fprintf(stderr, "api_order_bench: %s: %s\n", call, gpushare_explain());
	_exit(1);
}

static void meet(const struct side *side)
{
	char byte = 'x';

	if (write(side->to, &byte, 1) != 1 || read(side->from, &byte, 1) != 1)
		_exit(1);
}

static void print_times(const char *what, double *times, size_t count)
{
	double median = clock_median(times, count);

	printf("%s\t%.3f\t%.3f\n", what, median, times[count * 99 / 100]);
}

static void print_one(const char *what, double us)
{
	printf("%s\t%.3f\t\n", what, us);
}

/* CPU to CPU: half of a round trip. */
static void cpu_to_cpu(const struct side *side, int leads, uint64_t from)
{
	for (uint64_t i = 0; i < side->count; i++) {
		double began = clock_us();

		if (leads)
			MUST(gpushare_publish_host(side->mine, NULL));
		MUST(gpushare_acquire_host(side->theirs, from + i, PATIENCE_MS, NULL));
		if (!leads)
			MUST(gpushare_publish_host(side->mine, NULL));
		side->first[i] = (clock_us() - began) / 2;
	}
	if (leads)
		print_times("CPU to CPU, one way", side->first, side->count);
}

/* GPU to GPU: the whole work is queued in the two streams, which answer each other. */
static void gpu_to_gpu(const struct side *side, int leads, uint64_t from)
{
	double began = clock_us();

	for (uint64_t i = 0; i < side->count; i++) {
		if (leads)
			MUST(gpushare_publish(side->mine, NULL, NULL));
		MUST(gpushare_acquire(side->theirs, NULL, from + i));
		if (!leads)
			MUST(gpushare_publish(side->mine, NULL, NULL));
	}
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	if (leads)
		print_one("GPU to GPU, round trip", (clock_us() - began) / (double)side->count);
}

/* The same with only the driver's calls on a shared page, to measure the host's own pace. */
static void driver_alone(const struct side *side, int leads)
{
	cu_deviceptr mine, theirs, at;
	double began;

	gpu_must(gpu.cuMemHostRegister_v2(side->words, SIZE,
					  CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED),
		 "cuMemHostRegister");
	gpu_must(gpu.cuMemHostGetDevicePointer_v2(&at, side->words, 0),
		 "cuMemHostGetDevicePointer");
	mine = at + (leads ? 0 : WORD_APART);
	theirs = at + (leads ? WORD_APART : 0);
	meet(side);
	began = clock_us();
	for (uint64_t i = 1; i <= side->count; i++) {
		if (leads)
			gpu_must(gpu.cuStreamWriteValue64_v2(NULL, mine, i, 0), "a write");
		gpu_must(gpu.cuStreamWaitValue64_v2(NULL, theirs, i, CU_WAIT_GEQ), "a wait");
		if (!leads)
			gpu_must(gpu.cuStreamWriteValue64_v2(NULL, mine, i, 0), "a write");
	}
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	if (leads)
		print_one("the driver's own calls, GPU to GPU, round trip",
			  (clock_us() - began) / (double)side->count);
	fflush(stdout);
}

/* CPU time of the calls while the stream's queue is not full. */
static void call_costs(const struct side *side, int leads, uint64_t from)
{
	for (uint64_t i = 0; i < side->count; i++) {
		double began = clock_us(), between;

		if (leads)
			MUST(gpushare_publish(side->mine, NULL, NULL));
		else
			MUST(gpushare_acquire(side->theirs, NULL, from + i));
		between = clock_us();
		if (leads)
			MUST(gpushare_reclaim(side->mine, NULL, from + i));
		else
			MUST(gpushare_release(side->theirs, NULL, from + i));
		side->first[i] = between - began;
		side->second[i] = clock_us() - between;
		if (i % BATCH == BATCH - 1)
			gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	}
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	print_times(leads ? "gpushare_publish" : "gpushare_acquire", side->first, side->count);
	print_times(leads ? "gpushare_reclaim" : "gpushare_release", side->second, side->count);
	fflush(stdout);
}

/* CPU time of the driver calls that publishing and acquiring make: the lower bound of theirs. */
static void driver_costs(const struct side *side)
{
	cu_deviceptr at;

	gpu_must(gpu.cuMemHostGetDevicePointer_v2(&at, side->words, 0),
		 "cuMemHostGetDevicePointer");
	at += SIZE / 2;
	for (uint64_t i = 0; i < side->count; i++) {
		double began = clock_us(), between;

		gpu_must(gpu.cuStreamWriteValue64_v2(NULL, at, i, 0), "a write");
		between = clock_us();
		gpu_must(gpu.cuStreamWaitValue64_v2(NULL, at, i, CU_WAIT_GEQ), "a wait");
		side->first[i] = between - began;
		side->second[i] = clock_us() - between;
		if (i % BATCH == BATCH - 1)
			gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	}
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	print_times("cuStreamWriteValue64 alone", side->first, side->count);
	print_times("cuStreamWaitValue64 alone", side->second, side->count);
}

static int run(struct side *side, int leads)
{
	const struct gpushare_attach_options options = {.wait_ms = PATIENCE_MS, .passive = leads};

	gpu_start();
	side->first = calloc(side->count, sizeof(double));
	side->second = calloc(side->count, sizeof(double));
	if (!side->first || !side->second)
		return 1;
	MUST(gpushare_open(NULL, &side->session));
	MUST(gpushare_alloc(side->session, leads ? "ping" : "pong", 0, SIZE, &side->mine));
	MUST(gpushare_attach(side->session, leads ? "pong" : "ping", &options, &side->theirs));
	/* everything that happens only once */
	MUST(gpushare_publish(side->mine, NULL, NULL));
	MUST(gpushare_acquire(side->theirs, NULL, 1));
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	meet(side);
	cpu_to_cpu(side, leads, 2);
	meet(side);
	gpu_to_gpu(side, leads, 2 + side->count);
	meet(side);
	call_costs(side, leads, 2 + 2 * side->count);
	meet(side);
	driver_alone(side, leads);
	meet(side);
	if (leads) {
		driver_costs(side);
		printf("means\t%s\t\n", gpushare_ordering_text(gpushare_ordering(side->mine)));
	}
	fflush(stdout);
	meet(side);
	MUST(gpushare_close(side->session));
	free(side->first);
	free(side->second);
	return 0;
}

int main(int argc, char **argv)
{
	struct side side = {.count = argc == 2 ? strtoul(argv[1], NULL, 0) : 0};
	int there[2], back[2], status, failed;
	pid_t child;

	if (!side.count) {
		fprintf(stderr, "usage: api_order_bench COUNT\n");
		return 2;
	}
	side.words = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (side.words == MAP_FAILED || pipe(there) || pipe(back))
		return 1;
	child = fork();
	if (child < 0)
		return 1;
	side.to = child ? there[1] : back[1];
	side.from = child ? back[0] : there[0];
	close(child ? there[0] : there[1]);
	close(child ? back[1] : back[0]);
	failed = run(&side, child != 0);
	if (!child)
		_exit(failed);
	return waitpid(child, &status, 0) != child || status || failed;
}
