/* SPDX-License-Identifier: MIT */
/*
 * Other ways for a hand-over between streams of two processes than one write of and one wait for a
 * word in registered host memory. `api_order_ways COUNT` prints lines "WAY<tab>US", the mean of
 * COUNT round trips, or "WAY<tab><tab>WHY NOT". It uses the driver's calls alone; the first way is
 * gpushare's.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_driver.h"
#include "order_batch.h"

#define LINE 128 /* bytes between two words that different sides write */
#define BYTES 4096

enum way_bits {
	OWN_STREAM = 1,
	URGENT = 2,    /* a stream of the highest priority */
	TOGETHER = 4,  /* the write and the wait in one call */
	BARE = 8,      /* no barrier: earlier writes may become visible after the word */
	ON_DEVICE = 16 /* each word is in device memory allocated by its writer */
};

static const struct way {
	const char *what;
	unsigned int bits;
} ways[] = {
    {"a write and a wait, on the default stream", 0},
    {"on a stream of its own", OWN_STREAM},
    {"on one of the highest priority", OWN_STREAM | URGENT},
    {"both in one cuStreamBatchMemOp", OWN_STREAM | TOGETHER},
    {"a write without its barrier (which a publication needs)", OWN_STREAM | BARE},
    {"words in the GPU's memory (which no CPU could wait for)", OWN_STREAM | ON_DEVICE},
    {"words in the GPU's memory, both in one cuStreamBatchMemOp",
     OWN_STREAM | ON_DEVICE | TOGETHER},
};
#define WAYS (sizeof(ways) / sizeof(*ways))

/* Both processes map it. */
struct meeting {
	_Alignas(BYTES) uint64_t words[BYTES / sizeof(uint64_t)];
	cu_ipc_mem_handle handles[2];
	char missing[2][64]; /* for each side: why it can't use this way; "": it can */
};

struct side {
	int leads, to, from; /* `to`, `from`: pipe ends for meet() */
	size_t count;
	struct meeting *meeting;
	cu_deviceptr host, memory, theirs; /* the words: in host memory, ours, the other side's */
	void *library;
};

static void meet(const struct side *side)
{
	char byte = 'x';

	fflush(stdout);
	if (write(side->to, &byte, 1) != 1 || read(side->from, &byte, 1) != 1)
		_exit(1);
}

static void *look_up(const struct side *side, const char *name)
{
	return dlsym(side->library, name);
}

/* Make the way's stream. Return an error text, or NULL. */
static const char *make_stream(const struct side *side, unsigned int bits, cu_stream *out_stream)
{
	cu_result (*range)(int *, int *) = look_up(side, "cuCtxGetStreamPriorityRange");
	cu_result (*make)(cu_stream *, unsigned int, int) =
	    look_up(side, "cuStreamCreateWithPriority");
	int least = 0, most = 0;

	*out_stream = NULL;
	if (!(bits & OWN_STREAM))
		return NULL;
	if (!(bits & URGENT)) {
		gpu_must(gpu.cuStreamCreate(out_stream, CU_STREAM_NONBLOCKING), "cuStreamCreate");
		return NULL;
	}
	if (!range || !make)
		return "cuStreamCreateWithPriority is missing";
	gpu_must(range(&least, &most), "cuCtxGetStreamPriorityRange");
	gpu_must(make(out_stream, CU_STREAM_NONBLOCKING, most), "cuStreamCreateWithPriority");
	return NULL;
}

static void open_host(struct side *side)
{
	gpu_must(gpu.cuMemHostRegister_v2(side->meeting->words, BYTES,
					  CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED),
		 "cuMemHostRegister");
	gpu_must(gpu.cuMemHostGetDevicePointer_v2(&side->host, side->meeting->words, 0),
		 "cuMemHostGetDevicePointer");
}

/* Export our memory to the other side, and open the other side's. */
static void open_memory(struct side *side)
{
	cu_cuIpcGetMemHandle_call *get = look_up(side, "cuIpcGetMemHandle");
	cu_cuIpcOpenMemHandle_v2_call *open = look_up(side, "cuIpcOpenMemHandle_v2");

	gpu_must(!get || !open, "dlsym of cuIpcOpenMemHandle_v2");
	gpu_must(gpu.cuMemAlloc_v2(&side->memory, BYTES), "cuMemAlloc");
	gpu_must(gpu.cuMemsetD8_v2(side->memory, 0, BYTES), "cuMemsetD8");
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	gpu_must(get(&side->meeting->handles[!side->leads], side->memory), "cuIpcGetMemHandle");
	meet(side);
	gpu_must(open(&side->theirs, side->meeting->handles[side->leads], CU_IPC_LAZY_PEER_ACCESS),
		 "cuIpcOpenMemHandle");
}

/*
 * One side's part of a round trip: the leading side writes and waits; the other side waits and
 * writes.
 */
struct ends {
	cu_stream stream;
	cu_deviceptr mine, theirs;
	unsigned int write_flags;
	cu_result (*batch)(cu_stream, unsigned int, struct batch_op *, unsigned int);
};

static void trip_apart(const struct side *side, const struct ends *ends, uint64_t number)
{
	for (int step = 0; step < 2; step++) {
		if (step != side->leads)
			gpu_must(gpu.cuStreamWriteValue64_v2(ends->stream, ends->mine, number,
							     ends->write_flags),
				 "cuStreamWriteValue64");
		else
			gpu_must(gpu.cuStreamWaitValue64_v2(ends->stream, ends->theirs, number,
							    CU_WAIT_GEQ),
				 "cuStreamWaitValue64");
	}
}

static void trip_together(const struct side *side, const struct ends *ends, uint64_t number)
{
	struct batch_op ops[2];

	ops[!side->leads] = (struct batch_op){
	    .operation = BATCH_WRITE_64,
	    .address = ends->mine,
	    .value = number,
	    .flags = ends->write_flags,
	};
	ops[side->leads] = (struct batch_op){
	    .operation = BATCH_WAIT_64,
	    .address = ends->theirs,
	    .value = number,
	    .flags = CU_WAIT_GEQ,
	};
	gpu_must(ends->batch(ends->stream, 2, ops, 0), "cuStreamBatchMemOp");
}

static const char *prepare(const struct side *side, size_t index, struct ends *out_ends)
{
	unsigned int bits = ways[index].bits;
	cu_deviceptr mine = bits & ON_DEVICE ? side->memory : side->host,
		     theirs = bits & ON_DEVICE ? side->theirs : side->host;
	size_t at = 2 * index * LINE;
	const char *why;

	*out_ends = (struct ends){
	    .mine = mine + at + (side->leads ? 0 : LINE),
	    .theirs = theirs + at + (side->leads ? LINE : 0),
	    .write_flags = bits & BARE ? BATCH_NO_BARRIER : 0,
	    .batch = look_up(side, "cuStreamBatchMemOp_v2"),
	};
	if ((bits & TOGETHER) && !out_ends->batch)
		return "cuStreamBatchMemOp_v2 is missing";
	why = make_stream(side, bits, &out_ends->stream);
	if (!why && gpu.cuStreamWriteValue64_v2(out_ends->stream, out_ends->mine, 0,
						out_ends->write_flags) != CU_OK)
		why = "refused";
	return why;
}

static double measure(const struct side *side, size_t index, const struct ends *ends)
{
	double began = clock_us();

	for (uint64_t number = 1; number <= side->count; number++) {
		if (ways[index].bits & TOGETHER)
			trip_together(side, ends, number);
		else
			trip_apart(side, ends, number);
	}
	gpu_must(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
	return (clock_us() - began) / (double)side->count;
}

static void go(const struct side *side, size_t index)
{
	char(*missing)[64] = side->meeting->missing;
	struct ends ends;
	const char *why = prepare(side, index, &ends);
	double us;

	snprintf(missing[side->leads], sizeof(missing[0]), "%s", why ? why : "");
	meet(side);
	if (*missing[0] || *missing[1]) {
		if (side->leads)
			printf("%s\t\t%s\n", ways[index].what, missing[*missing[0] ? 0 : 1]);
		meet(side);
		return;
	}
	us = measure(side, index, &ends);
	if (side->leads)
		printf("%s\t%.3f\n", ways[index].what, us);
	meet(side);
}

static int run(struct side *side)
{
	gpu_start();
	side->library = dlopen("libcuda.so.1", RTLD_NOW);
	open_host(side);
	open_memory(side);
	for (size_t i = 0; i < WAYS; i++)
		go(side, i);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct side side = {.count = argc == 2 ? strtoul(argv[1], NULL, 0) : 0};
	int there[2], back[2], status, failed;
	pid_t child;

	_Static_assert(2 * WAYS * LINE <= BYTES, "each way has its words");
	if (!side.count) {
		fprintf(stderr, "usage: api_order_ways COUNT\n");
		return 2;
	}
	side.meeting = mmap(NULL, sizeof(*side.meeting), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (side.meeting == MAP_FAILED || pipe(there) || pipe(back))
		return 1;
	child = fork();
	if (child < 0)
		return 1;
	side.leads = child != 0;
	side.to = child ? there[1] : back[1];
	side.from = child ? back[0] : there[0];
	close(child ? there[0] : there[1]);
	close(child ? back[1] : back[0]);
	failed = run(&side);
	if (!child)
		_exit(failed);
	return waitpid(child, &status, 0) != child || status || failed;
}
