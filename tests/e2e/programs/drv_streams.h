/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_STREAMS_H
#define TESTS_E2E_DRV_STREAMS_H
/* Verbs for streams that wait, and for captured streams. */

#include "drv_ways.h"

static uint32_t *drv_flags; /* in host memory: two per stream letter; 1 lets it continue */

static cu_stream drv_stream(const char *letter)
{
	return drv_streams[(unsigned char)letter[0] & 127];
}

/* stream=LETTER: create one that doesn't wait for the default stream */
VERB(stream, 1, 1)
{
	gpu_say("stream", argument[0],
		DRV(cuStreamCreate)(&drv_streams[(unsigned char)argument[0][0] & 127],
				    CU_STREAM_NONBLOCKING));
}

static uint32_t *drv_flag(const char *letter)
{
	void *pointer;

	if (!drv_flags) {
		if (DRV(cuMemHostAlloc)(&pointer, 4096, CU_HOST_ALLOC_PORTABLE))
			script_stop("no host memory");
		drv_flags = memset(pointer, 0, 4096);
	}
	return &drv_flags[2 * ((unsigned char)letter[0] & 127)];
}

/* stall=LETTER: let the stream's later work wait for go= or gosoon= */
VERB(stall, 1, 1)
{
	uint32_t *flag = drv_flag(argument[0]);

	*flag = 0;
	gpu_say(
	    "stall", argument[0],
	    DRV(cuStreamWaitValue32_v2)(drv_stream(argument[0]), (uintptr_t)flag, 1, CU_WAIT_GEQ));
}

/* go=LETTER: let the stream continue, and wait until all its work is done */
VERB(go, 1, 1)
{
	__atomic_store_n(drv_flag(argument[0]), 1, __ATOMIC_SEQ_CST);
	gpu_say("go", argument[0], DRV(cuStreamSynchronize)(drv_stream(argument[0])));
}

static void *drv_let_go(void *flag)
{
	usleep(50000); /* a call that doesn't wait has returned by then */
	__atomic_store_n((uint32_t *)flag, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* gosoon=LETTER: let the stream continue after 50 ms, without waiting here */
VERB(gosoon, 1, 1)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, drv_let_go, drv_flag(argument[0])))
		script_stop("no thread");
	pthread_detach(thread);
}

/* goby=LETTER,OTHER: let the stream continue by a write of the GPU in stream OTHER; wait only for
 * that write */
VERB(goby, 2, 2)
{
	uint32_t *flag = drv_flag(argument[0]);
	int code = DRV(cuStreamWriteValue64_v2)(drv_stream(argument[1]), (uintptr_t)flag, 1, 0);

	for (int left_ms = 5000; !code && !__atomic_load_n(flag, __ATOMIC_ACQUIRE); left_ms--) {
		if (!left_ms)
			code = -1;
		usleep(1000);
	}
	gpu_say("goby", argument[0], code);
}

/* capture=LETTER[,relaxed] */
VERB(capture, 1, 2)
{
	gpu_say("capture", argument[0],
		DRV(cuStreamBeginCapture_v2)(drv_stream(argument[0]),
					     count > 1 ? CU_CAPTURE_RELAXED : CU_CAPTURE_GLOBAL));
}

VERB(endcapture, 1, 1)
{
	cu_graph graph = NULL;
	int code = DRV(cuStreamEndCapture)(drv_stream(argument[0]), &graph);

	printf("endcapture %s: %d, %s\n", argument[0], code, graph ? "a graph" : "no graph");
	if (graph)
		DRV(cuGraphDestroy)(graph);
}

#endif
