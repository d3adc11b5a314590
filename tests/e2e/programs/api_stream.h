/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_STREAM_H
#define GPUSHARE_TESTS_API_STREAM_H
/* Verbs of api_app for contexts, and for streams that wait or are captured. A stream is a letter;
 * d: the default stream, p: the thread's own default stream. */
#include <pthread.h>

#include "api_raw.h"

static struct {
	void *library; /* NULL: the driver is not open */
#define F(since, version, name, params) cu_##name##_call *name;
	CUDA_ABI_CALLS(F)
#undef F
} cu;

typedef struct graph_exec_opaque *graph_exec;

static struct one_stream {
	cu_stream stream;
	cu_graph graph; /* of its last capture */
	_Atomic uint32_t stops;
} streams[128];

static _Atomic uint32_t *gates; /* one for each stream; it passes its Nth stop at N */

/* Open the driver, with device 0's primary context current. */
static void stream_open(void)
{
	void *word;

	if (cu.library)
		return;
	cu.library = raw_enter(0);
#define F(since, version, name, params) cu.name = (cu_##name##_call *)dlsym(cu.library, #name);
	CUDA_ABI_CALLS(F)
#undef F
	if (cu.cuMemHostAlloc(&word, 4096, CU_HOST_ALLOC_PORTABLE))
		script_stop("no pinned memory");
	gates = memset(word, 0, 4096);
}

static void stream_must(cu_result result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %d\n", what, (int)result);
	script_stop("a driver call failed");
}
#define CU(call) stream_must(cu.call, #call)

static struct one_stream *one_of(const char *letter)
{
	return &streams[(unsigned char)letter[0] & 127];
}

static cu_stream stream_of(const char *letter)
{
	if (*letter == 'p')
		return (cu_stream)(uintptr_t)2; /* CU_STREAM_PER_THREAD */
	if (*letter != 'd' && !one_of(letter)->stream)
		script_stop("no such stream");
	return one_of(letter)->stream;
}

/* stream=S: create it in the current context. It does not wait for the default stream. */
VERB(stream, 1, 1)
{
	stream_open();
	CU(cuStreamCreate(&one_of(argument[0])->stream, CU_STREAM_NONBLOCKING));
}

/* hold[=S]: make the stream wait, and create it if there is none; without S: h */
VERB(hold, 0, 1)
{
	struct one_stream *one = one_of(count ? argument[0] : "h");

	stream_open();
	if (!one->stream)
		CU(cuStreamCreate(&one->stream, CU_STREAM_NONBLOCKING));
	CU(cuStreamWaitValue32_v2(one->stream, (uintptr_t)&gates[one - streams], ++one->stops,
				  CU_WAIT_GEQ));
}

static void *let_go_later(void *stream)
{
	struct one_stream *one = stream;

	script_nap_ms(60); /* a call that doesn't wait has returned by then */
	gates[one - streams] = one->stops;
	return NULL;
}

/* letgo[=S[,soon]]: let it continue; soon: a moment later, in another thread */
VERB(letgo, 0, 2)
{
	struct one_stream *one = one_of(count ? argument[0] : "h");
	pthread_t thread;

	if (count < 2)
		gates[one - streams] = one->stops;
	else if (pthread_create(&thread, NULL, let_go_later, one) || pthread_detach(thread))
		script_stop("no thread");
}

VERB(sync, 1, 1)
{
	CU(cuStreamSynchronize(stream_of(argument[0])));
}

/* capture=S, endcapture=S, launch=S: capture its work as a graph; run that once, on the stream */
VERB(capture, 1, 1)
{
	CU(cuStreamBeginCapture_v2(stream_of(argument[0]), (cu_capture_mode)CU_CAPTURE_GLOBAL));
}

VERB(endcapture, 1, 1)
{
	CU(cuStreamEndCapture(stream_of(argument[0]), &one_of(argument[0])->graph));
}

VERB(launch, 1, 1)
{
	cu_result (*instantiate)(graph_exec *, cu_graph, unsigned long long);
	cu_result (*launch)(graph_exec, cu_stream);
	graph_exec exec;

	CU(cuGetProcAddress("cuGraphInstantiateWithFlags", (void **)&instantiate, 12000, 0));
	CU(cuGetProcAddress("cuGraphLaunch", (void **)&launch, 12000, 0));
	stream_must(instantiate(&exec, one_of(argument[0])->graph, 0), "cuGraphInstantiate");
	stream_must(launch(exec, stream_of(argument[0])), "cuGraphLaunch");
}

/* context[=new|end|none|same]: make device 0's primary context current, a new one, or none;
 * destroy the new one; print whether the current one is that of the last context= */
VERB(context, 0, 1)
{
	static cu_context made, last;
	cu_context now = NULL;
	const char *how = count ? argument[0] : "";

	stream_open();
	if (!strcmp(how, "new"))
		CU(cuCtxCreate_v2(&made, 0, 0));
	else if (!strcmp(how, "end"))
		CU(cuCtxDestroy_v2(made));
	else if (!*how)
		raw_enter(0);
	CU(cuCtxGetCurrent(&now));
	if (!strcmp(how, "same"))
		printf("context: %s\n", now == last ? "the same" : "another");
	for (; !strcmp(how, "none") && now; CU(cuCtxGetCurrent(&now)))
		CU(cuCtxSetCurrent(NULL)); /* pops one */
	last = now;
}

#endif
