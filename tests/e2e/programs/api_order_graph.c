/* SPDX-License-Identifier: MIT */
/*
 * `api_order_graph CONSUMERS COUNT SLOTS`: processes hand over frames by captured graphs. For each
 * frame, the producer captures a reclaim, a copy and a publication, and launches the graph. Each
 * consumer captures an acquire, a copy and a release, and launches that.
 */
#include "order_crew.h"

#define SLOTS_MAX 64

typedef struct graph_exec_opaque *graph_exec;

static struct {
	cu_result (*instantiate)(graph_exec *, cu_graph, unsigned long long);
	cu_result (*launch)(graph_exec, cu_stream);
	cu_result (*destroy)(graph_exec);
} graphs;

struct part {
	uint64_t count, slots;
	struct crew_pipes pipes;
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	cu_stream stream;
	uint64_t *staging;
	graph_exec execs[SLOTS_MAX]; /* those that may be running */
};

static void *look_up(const char *name)
{
	void *call = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

	must(call != NULL, name);
	return call;
}

static void begin(struct part *part)
{
	crew_start_cuda();
	*(void **)&graphs.instantiate = look_up("cuGraphInstantiateWithFlags");
	*(void **)&graphs.launch = look_up("cuGraphLaunch");
	*(void **)&graphs.destroy = look_up("cuGraphExecDestroy");
	MUST(gpushare_open(NULL, &part->session));
	MUST(cu.cuStreamCreate(&part->stream, CU_STREAM_NONBLOCKING));
	part->staging = pinned(part->slots * FRAME);
}

static uint64_t *staging_of(const struct part *part, uint64_t number)
{
	return part->staging + (number - 1) % part->slots * WORDS;
}

static void capture(const struct part *part)
{
	MUST(cu.cuStreamBeginCapture_v2(part->stream, CU_CAPTURE_GLOBAL));
}

static void launch(struct part *part, uint64_t number)
{
	graph_exec *exec = &part->execs[(number - 1) % part->slots];
	cu_graph graph = NULL;

	MUST(cu.cuStreamEndCapture(part->stream, &graph));
	if (*exec)
		MUST(graphs.destroy(*exec));
	MUST(graphs.instantiate(exec, graph, 0));
	MUST(cu.cuGraphDestroy(graph));
	MUST(graphs.launch(*exec, part->stream));
}

/* Before a slot is used again, wait until its frame is published: then its graph has ended. */
static void produce(struct part *part)
{
	begin(part);
	MUST(gpushare_alloc(part->session, "graph", -1, part->slots * FRAME, &part->ring));
	hear(part->pipes.go);
	for (uint64_t number = 1; number <= part->count; number++) {
		uint64_t before = number > part->slots ? number - part->slots : 0, sequence = 42;

		if (before)
			MUST(gpushare_acquire_host(part->ring, before, PATIENCE_MS, NULL));
		frame_fill(staging_of(part, number), number);
		capture(part);
		if (before)
			MUST(gpushare_reclaim(part->ring, part->stream, before));
		MUST(cu.cuMemcpyHtoDAsync_v2(gpushare_pointer(part->ring) +
						 frame_offset(number, part->slots),
					     staging_of(part, number), FRAME, part->stream));
		MUST(gpushare_publish(part->ring, part->stream, &sequence));
		must(sequence == 0, "a number that is given later");
		launch(part, number);
	}
	MUST(gpushare_reclaim_host(part->ring, part->count, PATIENCE_MS));
	MUST(cu.cuStreamSynchronize(part->stream));
	MUST(gpushare_sequence(part->ring, &part->count));
	printf("published %" PRIu64 "\n", part->count);
	MUST(gpushare_close(part->session));
}

static void consume(struct part *part)
{
	const struct gpushare_attach_options options = {.wait_ms = PATIENCE_MS};
	uint64_t first, published;

	begin(part);
	MUST(gpushare_attach(part->session, "graph", &options, &part->ring));
	MUST(gpushare_join(part->ring, &first));
	must(first == 1, "the first number");
	tell(part->pipes.ready);
	for (uint64_t number = first; number <= part->count; number++) {
		capture(part);
		MUST(gpushare_acquire(part->ring, part->stream, number));
		MUST(cu.cuMemcpyDtoHAsync_v2(staging_of(part, number),
					     gpushare_pointer(part->ring) +
						 frame_offset(number, part->slots),
					     FRAME, part->stream));
		MUST(gpushare_release(part->ring, part->stream, number));
		launch(part, number);
		MUST(cu.cuStreamSynchronize(part->stream));
		MUST(gpushare_sequence(part->ring, &published));
		must(published >= number, "what was published");
		frame_check(staging_of(part, number), number);
	}
	MUST(gpushare_close(part->session));
}

static void work(void *part, unsigned int index)
{
	if (index)
		consume(part);
	else
		produce(part);
}

int main(int argc, char **argv)
{
	unsigned int consumers = argc == 4 ? (unsigned int)strtoul(argv[1], NULL, 0) : 0;
	struct part part = {.count = 0};

	if (consumers) {
		part.count = strtoull(argv[2], NULL, 0);
		part.slots = strtoull(argv[3], NULL, 0);
	}
	if (!part.count || !part.slots || part.slots > SLOTS_MAX) {
		fprintf(stderr, "usage: api_order_graph CONSUMERS COUNT SLOTS\n");
		return 2;
	}
	return !crew_run(consumers, &part.pipes, work, &part);
}
