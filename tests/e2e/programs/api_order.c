/* SPDX-License-Identifier: MIT */
/*
 * Processes hand over frames, whose content shows if they are torn.
 *   api_order crew CONSUMERS COUNT SLOTS WAY   one producer and CONSUMERS consumers, all children
 *   api_order produce NAME SLOTS COUNT WAY [PAUSE]
 *   api_order consume NAME SLOTS WAY [PAUSE]   until the producer ends; prints how many frames it
 *                                              has read, and the last status
 *   api_order visit NAME SLOTS WAY             join, read some frames, leave, repeatedly until the
 *                                              producer ends; prints `visiting` after 12 frames
 * WAY is host, stream, mixed (processes with an odd index use a stream, the others host) or, for a
 * producer, held. PAUSE is a frame's number:
 *   a producer stops for ever after it has written that frame and before it publishes it
 *   a consumer stops for ever while it has acquired that frame
 *   a producer whose WAY is held lets a stream publish that frame, and the stream waits for ever
 * If $API_ORDER_GO is set, a producer waits until that file exists.
 */
#include <signal.h>

#include "order_crew.h"

struct part {
	const char *name, *way;
	uint64_t slots, count, pause;
	struct crew_pipes pipes;
};

static int is_held(const struct part *part)
{
	return !strcmp(part->way, "held");
}

static int by_stream(const struct part *part, unsigned int index)
{
	return !strcmp(part->way, "stream") || is_held(part) ||
	       (!strcmp(part->way, "mixed") && index % 2);
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

static void write_host(struct gpushare_buffer *ring, const struct part *part, uint64_t number)
{
	uint64_t frame[WORDS], sequence;

	if (number > part->slots)
		MUST(gpushare_reclaim_host(ring, number - part->slots, PATIENCE_MS));
	frame_fill(frame, number);
	MUST(gpushare_copy_to(ring, frame_offset(number, part->slots), frame, FRAME));
	stop_at(part, number, "written");
	MUST(gpushare_publish_host(ring, &sequence));
	must(sequence == number, "the number of a publication");
}

static void hold_up(cu_stream stream)
{
	uint32_t *word = pinned(sizeof(*word));

	*word = 0; /* never set to 1 */
	MUST(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
}

/* A staging slot can be reused once the frame that was copied from it is published. */
static void write_stream(struct gpushare_buffer *ring, const struct part *part, cu_stream stream,
			 uint64_t *staging, uint64_t number)
{
	uint64_t *from = staging + (number - 1) % part->slots * WORDS, sequence;

	if (number > part->slots) {
		MUST(gpushare_acquire_host(ring, number - part->slots, PATIENCE_MS, NULL));
		MUST(gpushare_reclaim(ring, stream, number - part->slots));
	}
	frame_fill(from, number);
	if (is_held(part) && number == part->pause)
		hold_up(stream);
	MUST(cu.cuMemcpyHtoDAsync_v2(gpushare_pointer(ring) + frame_offset(number, part->slots),
				     from, FRAME, stream));
	if (!is_held(part)) {
		if (number == part->pause) /* the frames before it must be published */
			MUST(gpushare_acquire_host(ring, number - 1, PATIENCE_MS, NULL));
		stop_at(part, number, "written");
	}
	MUST(gpushare_publish(ring, stream, &sequence));
	must(sequence == number, "the number of a publication");
	if (is_held(part))
		stop_at(part, number, "published");
}

static void produce(const struct part *part)
{
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	uint64_t *staging, sequence;
	cu_stream stream = NULL;

	crew_start_cuda();
	MUST(gpushare_open(NULL, &session));
	MUST(gpushare_alloc(session, part->name, -1, part->slots * FRAME, &ring));
	MUST(gpushare_sequence(ring, &sequence));
	staging = pinned(part->slots * FRAME);
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	if (part->pipes.go >= 0)
		hear(part->pipes.go);
	while (getenv("API_ORDER_GO") && access(getenv("API_ORDER_GO"), F_OK))
		usleep(1000);
	for (uint64_t number = 1; number <= part->count; number++) {
		if (by_stream(part, 0))
			write_stream(ring, part, stream, staging, number);
		else
			write_host(ring, part, number);
	}
	MUST(gpushare_reclaim_host(ring, part->count, PATIENCE_MS));
	printf("produced %" PRIu64 " by %s\n", part->count,
	       gpushare_ordering_text(gpushare_ordering(ring)));
	MUST(cu.cuStreamSynchronize(stream));
	MUST(gpushare_close(session));
}

static int read_host(struct gpushare_buffer *ring, const struct part *part, uint64_t number)
{
	uint64_t frame[WORDS];
	int status = gpushare_acquire_host(ring, number, PATIENCE_MS, NULL);

	if (status)
		return status;
	stop_at(part, number, "holding");
	MUST(gpushare_copy_from(ring, frame_offset(number, part->slots), frame, FRAME));
	MUST(gpushare_release_host(ring, number));
	frame_check(frame, number);
	return 0;
}

/* If the producer has ended, the registry lets the stream through without a frame: then `published`
 * is too low. */
static int read_stream(struct gpushare_buffer *ring, const struct part *part, cu_stream stream,
		       uint64_t *staging, uint64_t number)
{
	uint64_t *to = staging + (number - 1) % part->slots * WORDS, published;
	int status = gpushare_acquire(ring, stream, number);

	if (status)
		return status;
	stop_at(part, number, "holding");
	MUST(cu.cuMemcpyDtoHAsync_v2(to, gpushare_pointer(ring) + frame_offset(number, part->slots),
				     FRAME, stream));
	MUST(gpushare_release(ring, stream, number));
	MUST(cu.cuStreamSynchronize(stream));
	MUST(gpushare_sequence(ring, &published));
	if (published < number)
		return gpushare_order_status(ring);
	frame_check(to, number);
	return 0;
}

static void consume(const struct part *part, unsigned int index)
{
	const struct gpushare_attach_options options = {.wait_ms = PATIENCE_MS};
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	uint64_t *staging, first, number;
	cu_stream stream = NULL;
	int status;

	crew_start_cuda();
	MUST(gpushare_open(NULL, &session));
	MUST(gpushare_attach(session, part->name, &options, &ring));
	staging = pinned(part->slots * FRAME);
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	MUST(gpushare_join(ring, &first));
	printf("joined from %" PRIu64 "\n", first);
	fflush(stdout);
	if (part->pipes.ready >= 0)
		tell(part->pipes.ready);
	for (number = first;; number++) {
		status = by_stream(part, index) ? read_stream(ring, part, stream, staging, number)
						: read_host(ring, part, number);
		if (status)
			break;
	}
	must(status == GPUSHARE_E_OWNER_GONE, "the end of what is published");
	must(!part->count || number == part->count + 1, "all that was published");
	printf("consumed %" PRIu64 ", then %s\n", number - first, gpushare_status_text(status));
	MUST(gpushare_close(session));
}

/* A process that joins midway gets whole frames too, from the number that gpushare_join() gives. */
static void visit(const struct part *part)
{
	const struct gpushare_attach_options options = {.wait_ms = PATIENCE_MS};
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	uint64_t *staging, number, visits = 0, frames = 0;
	cu_stream stream = NULL;
	int status = 0;

	crew_start_cuda();
	MUST(gpushare_open(NULL, &session));
	MUST(gpushare_attach(session, part->name, &options, &ring));
	staging = pinned(part->slots * FRAME);
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (; !status; visits++) {
		status = gpushare_join(ring, &number);
		for (unsigned int some = 0; !status && some < 3; some++, number++) {
			status = by_stream(part, 1)
				     ? read_stream(ring, part, stream, staging, number)
				     : read_host(ring, part, number);
			frames += !status;
			if (!status && frames == 12)
				must(puts("visiting") >= 0 && !fflush(stdout), "telling that");
		}
		if (visits % 2)
			MUST(gpushare_leave(ring));
	}
	must(status == GPUSHARE_E_OWNER_GONE, "the end of what is published");
	printf("visited %" PRIu64 " times, read %" PRIu64 " frames\n", visits, frames);
	MUST(gpushare_close(session));
}

static void work(void *part, unsigned int index)
{
	if (index)
		consume(part, index);
	else
		produce(part);
}

static int crew(unsigned int consumers, struct part *part)
{
	bool whole;

	part->name = "crew";
	whole = crew_run(consumers, &part->pipes, work, part);
	printf("%s: %u consumers, %" PRIu64 " hand-overs, %" PRIu64 " slots, %s\n",
	       whole ? "whole" : "FAILED", consumers, part->count, part->slots, part->way);
	return !whole;
}

static uint64_t number_of(const char *text)
{
	return strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
	struct part part = {.pipes = {.ready = -1, .go = -1}};

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
