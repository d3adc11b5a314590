/* SPDX-License-Identifier: MIT */
/*
 * Processes hand over frames, whose content shows if they are torn.
 *   api_order crew CONSUMERS COUNT SLOTS WAY   one producer and CONSUMERS consumers, all children
 *   api_order produce NAME SLOTS COUNT WAY [PAUSE]
 *   api_order consume NAME SLOTS WAY [PAUSE]   until the producer ends; prints how many frames it
 *                                              has read, and the last status
 *   api_order visit NAME SLOTS WAY             join, read some frames, leave, repeatedly until the
 *                                              producer ends; prints `visiting` after 12 frames
 * WAY is host, stream, graph (a stream, with a graph captured and launched for each frame), mixed
 * (processes with an odd index use a stream, the others host) or, for a producer, held. PAUSE is a
 * frame's number:
 *   a producer stops for ever after it has written that frame and before it publishes it
 *   a consumer stops for ever while it has acquired that frame
 *   a producer whose WAY is held lets a stream publish that frame, and the stream waits for ever
 * If $API_ORDER_GO is set, a producer waits until that file exists.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#include "api_cuda.h"

#define WORDS 1024 /* per frame */
#define FRAME ((size_t)WORDS * sizeof(uint64_t))
#define PATIENCE_MS 60000

typedef struct graph_exec_opaque *graph_exec;

struct part {
	const char *name, *way;
	uint64_t slots, count, pause;
	int ready, go; /* a crew's pipes: a consumer tells that it is ready, the producer waits */
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	cu_stream stream;
	uint64_t *staging;
	graph_exec *execs; /* of each slot; it may be running */
};

static bool is_way(const struct part *part, const char *way)
{
	return !strcmp(part->way, way);
}

static bool by_stream(const struct part *part, unsigned int index)
{
	return is_way(part, "stream") || is_way(part, "graph") || is_way(part, "held") ||
	       (is_way(part, "mixed") && index % 2);
}

static void frame_fill(uint64_t *frame, uint64_t number)
{
	for (uint64_t i = 0; i < WORDS; i++)
		frame[i] = number * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static void frame_check(const uint64_t *frame, uint64_t number)
{
	for (uint64_t i = 0; i < WORDS; i++) {
		if (frame[i] == number * UINT64_C(0x9e3779b97f4a7c15) + i)
			continue;
		fprintf(stderr, "api_order %d: frame %" PRIu64 " is torn at word %" PRIu64 "\n",
			(int)getpid(), number, i);
		exit(1);
	}
}

static size_t slot_of(const struct part *part, uint64_t number)
{
	return (size_t)((number - 1) % part->slots);
}

static void *pinned(size_t size)
{
	void *host = NULL;

	MUST(cu.cuMemHostAlloc(&host, size, CU_HOST_ALLOC_PORTABLE));
	return host;
}

static void tell(int fd)
{
	must(write(fd, "x", 1) == 1, "telling the others");
}

static void hear(int fd)
{
	char byte;

	must(read(fd, &byte, 1) == 1, "hearing from the others");
}

static void stop_at(const struct part *part, uint64_t number, const char *what)
{
	if (number != part->pause)
		return;
	printf("%s %" PRIu64 "\n", what, number);
	fflush(stdout);
	for (;;)
		pause();
}

static void begin(struct part *part)
{
	cuda_start();
	MUST(gpushare_open(NULL, &part->session));
	part->staging = pinned(part->slots * FRAME);
	part->execs = calloc(part->slots, sizeof(*part->execs));
	must(part->execs != NULL, "memory");
	MUST(cu.cuStreamCreate(&part->stream, CU_STREAM_NONBLOCKING));
}

/* If WAY is graph, capture what the stream is given until end_capture(), which launches it. */
static void capture(const struct part *part)
{
	if (is_way(part, "graph"))
		MUST(cu.cuStreamBeginCapture_v2(part->stream, CU_CAPTURE_GLOBAL));
}

static void end_capture(const struct part *part, uint64_t number)
{
	graph_exec *exec = &part->execs[slot_of(part, number)];
	cu_result (*instantiate)(graph_exec *, cu_graph, unsigned long long);
	cu_result (*launch)(graph_exec, cu_stream);
	cu_result (*destroy)(graph_exec);
	cu_graph graph = NULL;

	if (!is_way(part, "graph"))
		return;
	*(void **)&instantiate = cuda_call("cuGraphInstantiateWithFlags");
	*(void **)&launch = cuda_call("cuGraphLaunch");
	*(void **)&destroy = cuda_call("cuGraphExecDestroy");
	MUST(cu.cuStreamEndCapture(part->stream, &graph));
	if (*exec)
		MUST(destroy(*exec));
	MUST(instantiate(exec, graph, 0));
	MUST(cu.cuGraphDestroy(graph));
	MUST(launch(*exec, part->stream));
}

static void write_host(const struct part *part, uint64_t number)
{
	uint64_t frame[WORDS], sequence;

	if (number > part->slots)
		MUST(gpushare_reclaim_host(part->ring, number - part->slots, PATIENCE_MS));
	frame_fill(frame, number);
	MUST(gpushare_copy_to(part->ring, slot_of(part, number) * FRAME, frame, FRAME));
	stop_at(part, number, "written");
	MUST(gpushare_publish_host(part->ring, &sequence));
	must(sequence == number, "the number of a publication");
}

static void hold_up(cu_stream stream)
{
	uint32_t *word = pinned(sizeof(*word));

	*word = 0; /* never set to 1 */
	MUST(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
}

/* A staging slot and its graph can be reused once the frame copied from it is published. */
static void write_stream(const struct part *part, uint64_t number)
{
	uint64_t before = number > part->slots ? number - part->slots : 0, sequence = 42;
	uint64_t *from = part->staging + slot_of(part, number) * WORDS;
	bool is_held = is_way(part, "held");

	if (before)
		MUST(gpushare_acquire_host(part->ring, before, PATIENCE_MS, NULL));
	frame_fill(from, number);
	capture(part);
	if (before)
		MUST(gpushare_reclaim(part->ring, part->stream, before));
	if (is_held && number == part->pause)
		hold_up(part->stream);
	MUST(cu.cuMemcpyHtoDAsync_v2(gpushare_pointer(part->ring) + slot_of(part, number) * FRAME,
				     from, FRAME, part->stream));
	if (!is_held) {
		if (number == part->pause) /* the frames before it must be published */
			MUST(gpushare_acquire_host(part->ring, number - 1, PATIENCE_MS, NULL));
		stop_at(part, number, "written");
	}
	MUST(gpushare_publish(part->ring, part->stream, &sequence));
	/* Each launch of a graph gets its number. */
	must(sequence == (is_way(part, "graph") ? 0 : number), "the number of a publication");
	end_capture(part, number);
	if (is_held)
		stop_at(part, number, "published");
}

static void produce(struct part *part)
{
	uint64_t sequence;

	begin(part);
	MUST(gpushare_alloc(part->session, part->name, -1, part->slots * FRAME, &part->ring));
	MUST(gpushare_sequence(part->ring, &sequence));
	if (part->go >= 0)
		hear(part->go);
	while (getenv("API_ORDER_GO") && access(getenv("API_ORDER_GO"), F_OK))
		usleep(1000);
	for (uint64_t number = 1; number <= part->count; number++) {
		if (by_stream(part, 0))
			write_stream(part, number);
		else
			write_host(part, number);
	}
	MUST(gpushare_reclaim_host(part->ring, part->count, PATIENCE_MS));
	printf("produced %" PRIu64 " by %s\n", part->count,
	       gpushare_ordering_text(gpushare_ordering(part->ring)));
	MUST(cu.cuStreamSynchronize(part->stream));
	MUST(gpushare_sequence(part->ring, &sequence));
	must(sequence == part->count, "the last number");
	MUST(gpushare_close(part->session));
}

static int read_host(const struct part *part, uint64_t number)
{
	uint64_t frame[WORDS];
	int status = gpushare_acquire_host(part->ring, number, PATIENCE_MS, NULL);

	if (status)
		return status;
	stop_at(part, number, "holding");
	MUST(gpushare_copy_from(part->ring, slot_of(part, number) * FRAME, frame, FRAME));
	MUST(gpushare_release_host(part->ring, number));
	frame_check(frame, number);
	return 0;
}

/* If the producer has ended, the registry lets the stream through without a frame: then `published`
 * is too low. */
static int read_stream(const struct part *part, uint64_t number)
{
	uint64_t *to = part->staging + slot_of(part, number) * WORDS, published;
	int status;

	capture(part);
	status = gpushare_acquire(part->ring, part->stream, number);
	if (status) {
		end_capture(part, number); /* an empty graph */
		return status;
	}
	stop_at(part, number, "holding");
	MUST(cu.cuMemcpyDtoHAsync_v2(
	    to, gpushare_pointer(part->ring) + slot_of(part, number) * FRAME, FRAME, part->stream));
	MUST(gpushare_release(part->ring, part->stream, number));
	end_capture(part, number);
	MUST(cu.cuStreamSynchronize(part->stream));
	MUST(gpushare_sequence(part->ring, &published));
	if (published < number) {
		status = gpushare_order_status(part->ring);
		must(status == GPUSHARE_E_OWNER_GONE, "what was acquired is published");
		return status;
	}
	frame_check(to, number);
	return 0;
}

static int read_one(const struct part *part, unsigned int index, uint64_t number)
{
	return by_stream(part, index) ? read_stream(part, number) : read_host(part, number);
}

static void begin_reading(struct part *part)
{
	const struct gpushare_attach_options options = {.wait_ms = PATIENCE_MS};

	begin(part);
	MUST(gpushare_attach(part->session, part->name, &options, &part->ring));
}

static void consume(struct part *part, unsigned int index)
{
	uint64_t first, number;
	int status;

	begin_reading(part);
	MUST(gpushare_join(part->ring, &first));
	printf("joined from %" PRIu64 "\n", first);
	fflush(stdout);
	if (part->ready >= 0)
		tell(part->ready);
	for (number = first;; number++) {
		status = read_one(part, index, number);
		if (status)
			break;
	}
	must(status == GPUSHARE_E_OWNER_GONE, "the end of what is published");
	must(!part->count || (first == 1 && number == part->count + 1), "all that was published");
	printf("consumed %" PRIu64 ", then %s\n", number - first, gpushare_status_text(status));
	MUST(gpushare_close(part->session));
}

/* A process that joins midway gets whole frames too, from the number that gpushare_join() gives. */
static void visit(struct part *part)
{
	uint64_t number, visits = 0, frames = 0;
	int status = 0;

	begin_reading(part);
	for (; !status; visits++) {
		status = gpushare_join(part->ring, &number);
		for (unsigned int some = 0; !status && some < 3; some++, number++) {
			status = read_one(part, 1, number);
			frames += !status;
			if (!status && frames == 12)
				must(puts("visiting") >= 0 && !fflush(stdout), "telling that");
		}
		if (visits % 2)
			MUST(gpushare_leave(part->ring));
	}
	must(status == GPUSHARE_E_OWNER_GONE, "the end of what is published");
	printf("visited %" PRIu64 " times, read %" PRIu64 " frames\n", visits, frames);
	MUST(gpushare_close(part->session));
}

static void fork_one(struct part *part, unsigned int index)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid)
		return;
	if (index)
		consume(part, index);
	else
		produce(part);
	fflush(stdout);
	_exit(0);
}

/* The producer, which is index 0, starts after all consumers are ready. */
static int crew(unsigned int consumers, struct part *part)
{
	int ready[2], go[2], failed = 0, status;

	must(!pipe(ready) && !pipe(go), "pipe");
	part->name = "crew";
	part->ready = ready[1];
	part->go = go[0];
	for (unsigned int index = 0; index <= consumers; index++)
		fork_one(part, index);
	close(ready[1]);
	close(go[0]);
	for (unsigned int index = 0; index < consumers; index++)
		hear(ready[0]);
	tell(go[1]);
	for (unsigned int index = 0; index <= consumers; index++) {
		must(wait(&status) > 0, "wait");
		failed |= status;
	}
	printf("%s: %u consumers, %" PRIu64 " hand-overs, %" PRIu64 " slots, %s\n",
	       failed ? "FAILED" : "whole", consumers, part->count, part->slots, part->way);
	return failed != 0;
}

static uint64_t number_of(const char *text)
{
	return strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
	struct part part = {.ready = -1, .go = -1};

	signal(SIGPIPE, SIG_IGN);
	if (argc == 6 && !strcmp(argv[1], "crew")) {
		part.count = number_of(argv[3]);
		part.slots = number_of(argv[4]);
		part.way = argv[5];
		return crew((unsigned int)number_of(argv[2]), &part);
	}
	if (argc >= 6 && !strcmp(argv[1], "produce")) {
		part.name = argv[2];
		part.slots = number_of(argv[3]);
		part.count = number_of(argv[4]);
		part.way = argv[5];
		part.pause = argc > 6 ? number_of(argv[6]) : 0;
		produce(&part);
		return 0;
	}
	if (argc >= 5 && !strcmp(argv[1], "consume")) {
		part.name = argv[2];
		part.slots = number_of(argv[3]);
		part.way = argv[4];
		part.pause = argc > 5 ? number_of(argv[5]) : 0;
		consume(&part, 1);
		return 0;
	}
	if (argc == 5 && !strcmp(argv[1], "visit")) {
		part.name = argv[2];
		part.slots = number_of(argv[3]);
		part.way = argv[4];
		visit(&part);
		return 0;
	}
	fprintf(stderr,
		"usage: api_order crew CONSUMERS COUNT SLOTS WAY | produce NAME SLOTS COUNT "
		"WAY [PAUSE] | consume NAME SLOTS WAY [PAUSE] | visit NAME SLOTS WAY\n");
	return 2;
}
