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

RUNTIME_TWINS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream))
{
	RUNTIME_RUN(mode, cuStreamSynchronize, (cu_stream)stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuStreamDestroy, (cu_stream)stream);
}

RUNTIME_TWINS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode way),
	      (stream, way))
{
	RUNTIME_RUN(mode, cuStreamBeginCapture, (cu_stream)stream, (cu_capture_mode)way);
}

RUNTIME_TWINS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph),
	      (stream, graph))
{
	RUNTIME_RUN(mode, cuStreamEndCapture, (cu_stream)stream, (cu_graph *)graph);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuGraphDestroy, (cu_graph)graph);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventCreate, (cu_event *)event, cudaEventDefault);
}

RUNTIME_TWINS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream))
{
	RUNTIME_RUN(mode, cuEventRecord, (cu_event)event, (cu_stream)stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventSynchronize, (cu_event)event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuEventDestroy, (cu_event)event);
}
