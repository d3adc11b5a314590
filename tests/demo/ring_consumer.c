/* SPDX-License-Identifier: MIT */
/* Consumer of ring_producer's ring: check that each frame arrives once, in order and undamaged. */
#include <gpushare.h>

#include "ring.h"

int main(int count, char **argument)
{
	const struct gpushare_attach_options options = {.wait_ms = 10000};
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	static struct frame frame;
	uint64_t number, first;
	int status;

	if (count != 2) {
		fprintf(stderr, "usage: ring_consumer NAME\n");
		return 2;
	}
	if (gpushare_open(NULL, &session) ||
	    gpushare_attach(session, argument[1], &options, &ring) || gpushare_join(ring, &first))
		goto fail;
	printf("ring_consumer: from frame %llu on\n", (unsigned long long)first);
	fflush(stdout);
	for (number = first; !(status = gpushare_acquire_host(ring, number, -1, NULL)); number++) {
		if (gpushare_copy_from(ring, frame_offset(number), &frame, sizeof(frame)) ||
		    gpushare_release_host(ring, number))
			goto fail;
		if (frame.number == number && frame.checksum == frame_checksum(&frame))
			continue;
		fprintf(stderr, "ring_consumer: frame %llu is torn\n", (unsigned long long)number);
		return 1;
	}
	if (status != GPUSHARE_E_OWNER_GONE)
		goto fail;
	printf("ring_consumer: %llu frames, whole and in order\n",
	       (unsigned long long)(number - first));
	return gpushare_close(session) ? 1 : 0;
fail:
	fprintf(stderr, "ring_consumer: %s\n", gpushare_explain());
	return 1;
}
