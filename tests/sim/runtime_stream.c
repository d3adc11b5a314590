/* SPDX-License-Identifier: MIT */
/* Streams and events. */
#include "runtime_sim.h"

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuStreamCreate, (cu_stream *)stream, flags);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuStreamSynchronize, (cu_stream)stream);
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
	RUNTIME_RUN(RUNTIME_PER_THREAD, cuStreamSynchronize, (cu_stream)stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuStreamDestroy, (cu_stream)stream);
}

#define STREAM_CAPTURE(suffix, mode) \
	cudaError_t cudaStreamBeginCapture##suffix(cudaStream_t stream, \
						   enum cudaStreamCaptureMode way) \
	{ \
		RUNTIME_RUN(mode, cuStreamBeginCapture, (cu_stream)stream, (cu_capture_mode)way); \
	} \
\
	cudaError_t cudaStreamEndCapture##suffix(cudaStream_t stream, cudaGraph_t *graph) \
	{ \
		RUNTIME_RUN(mode, cuStreamEndCapture, (cu_stream)stream, (cu_graph *)graph); \
	}
STREAM_CAPTURE(, RUNTIME_LEGACY)
STREAM_CAPTURE(_ptsz, RUNTIME_PER_THREAD)

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuGraphDestroy, (cu_graph)graph);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventCreate, (cu_event *)event, cudaEventDefault);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventRecord, (cu_event)event, (cu_stream)stream);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
	RUNTIME_RUN(RUNTIME_PER_THREAD, cuEventRecord, (cu_event)event, (cu_stream)stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventSynchronize, (cu_event)event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventDestroy, (cu_event)event);
}
