/* SPDX-License-Identifier: MIT */
/* Producer of a ring of frames in GPU memory. Before it overwrites a frame, it waits until every
 * consumer has released that frame. */
#include <gpushare.h>

#include "ring.h"

static void fill(struct frame *frame, uint64_t number)
{
	frame->number = number;
	for (int i = 0; i < WORDS; i++)
		frame->words[i] = number * WORDS + (uint64_t)i;
	frame->checksum = frame_checksum(frame);
}

int main(int count, char **argument)
{
	uint64_t frames = count == 3 ? strtoull(argument[2], NULL, 0) : 0;
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	static struct frame frame;

	if (!frames) {
		fprintf(stderr, "usage: ring_producer NAME FRAMES\n");
		return 2;
	}
	if (gpushare_open(NULL, &session) ||
	    gpushare_alloc(session, argument[1], -1, SLOTS * sizeof(frame), &ring))
		goto fail;
	puts("press return when all consumers are there");
	fflush(stdout);
	getchar();
	for (uint64_t number = 1; number <= frames; number++) {
		fill(&frame, number);
		if (number > SLOTS && gpushare_reclaim_host(ring, number - SLOTS, -1))
			goto fail;
		if (gpushare_copy_to(ring, frame_offset(number), &frame, sizeof(frame)) ||
		    gpushare_publish_host(ring, NULL))
			goto fail;
	}
	if (gpushare_reclaim_host(ring, frames, -1))
		goto fail;
	printf("ring_producer: %llu frames were read\n", (unsigned long long)frames);
	return gpushare_close(session) ? 1 : 0;
fail:
	fprintf(stderr, "ring_producer: %s\n", gpushare_explain());
	return 1;
}
