/* SPDX-License-Identifier: MIT */
/*
 * `api_order_return`: a publisher detaches and attaches again while its streams still have frames
 * to publish. Its frames come from two waiting streams alternately, and each frame has its own
 * attachment. The owner reads. It must not get any frame before its turn, whichever stream
 * continues first, and even while the registry lets all waiting streams through.
 */
#include <sys/mman.h>

#include "order_crew.h"

#define FRAMES UINT64_C(5)
#define SETTLED_US 50000

static int to_owner[2], to_publisher[2];
static volatile int *let_go; /* in shared memory: 1 once the stream of frame 1 may continue */

static struct gpushare_session *begin(void)
{
	struct gpushare_session *session;

	crew_start_cuda();
	MUST(gpushare_open(NULL, &session));
	return session;
}

static void hold_up(cu_stream stream, uint32_t *word)
{
	*word = 0;
	MUST(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
}

/* Copy the frame by the CPU first: when a process detaches, no GPU may be using the buffer. */
static struct gpushare_buffer *publish_once(struct gpushare_session *session, cu_stream stream,
					    uint64_t number)
{
	struct gpushare_buffer *ring;
	uint64_t frame[WORDS], sequence;

	MUST(gpushare_attach(session, "ring", NULL, &ring));
	frame_fill(frame, number);
	MUST(gpushare_copy_to(ring, frame_offset(number, FRAMES), frame, FRAME));
	MUST(gpushare_publish(ring, stream, &sequence));
	must(sequence == number, "the number of a publication");
	return ring;
}

static void publish(void)
{
	struct gpushare_session *session;
	struct gpushare_buffer *ring;
	cu_stream streams[2];
	uint32_t *words;
	uint64_t published;

	hear(to_publisher[0]);
	session = begin();
	words = pinned(2 * sizeof(*words));
	for (unsigned int i = 0; i < 2; i++) {
		MUST(cu.cuStreamCreate(&streams[i], CU_STREAM_NONBLOCKING));
		hold_up(streams[i], &words[i]);
	}
	for (uint64_t number = 1; number < FRAMES; number++) {
		ring = publish_once(session, streams[number % 2], number);
		MUST(gpushare_detach(ring));
	}
	usleep(SETTLED_US);
	__atomic_store_n(&words[0], 1, __ATOMIC_SEQ_CST); /* for the even frames */
	usleep(SETTLED_US);
	ring = publish_once(session, streams[FRAMES % 2], FRAMES);
	tell(to_owner[1]);
	usleep(SETTLED_US);
	MUST(gpushare_sequence(ring, &published));
	must(published == 0, "none before its turn");
	*let_go = 1;
	__atomic_store_n(&words[1], 1, __ATOMIC_SEQ_CST);
	hear(to_publisher[0]);
	MUST(gpushare_close(session));
}

static void read_all(void)
{
	const struct gpushare_alloc_options options = {.device = -1, .flags = GPUSHARE_FLAG_VMM};
	struct gpushare_session *session = begin();
	struct gpushare_buffer *ring;
	uint64_t *frame = pinned(FRAME);
	cu_stream stream;

	MUST(gpushare_alloc_with(session, "ring", FRAMES * FRAME, &options, &ring));
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	tell(to_publisher[1]);
	hear(to_owner[0]);
	for (uint64_t number = FRAMES; number; number--) {
		MUST(gpushare_acquire(ring, stream, number));
		MUST(cu.cuMemcpyDtoHAsync_v2(
		    frame, gpushare_pointer(ring) + frame_offset(number, FRAMES), FRAME, stream));
		MUST(cu.cuStreamSynchronize(stream));
		must(*let_go, "none before its turn");
		frame_check(frame, number);
	}
	printf("read %" PRIu64 " by %s\n", FRAMES, gpushare_ordering_text(gpushare_ordering(ring)));
	tell(to_publisher[1]);
	MUST(gpushare_close(session));
}

int main(void)
{
	int status;
	pid_t pid;

	let_go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(let_go != MAP_FAILED && !pipe(to_owner) && !pipe(to_publisher), "pipes");
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		publish();
		_exit(0);
	}
	close(to_owner[1]);
	read_all();
	must(waitpid(pid, &status, 0) == pid && !status, "the publisher");
	return 0;
}
