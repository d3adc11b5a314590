/* SPDX-License-Identifier: MIT */
/* Twins of calls, for programs with a per-thread default stream: to them stream 0 is the calling
 * thread's default stream. */
#include "driver_stream.h"

/* These twins only need an address that differs from the plain call's. */
#if defined(__x86_64__)
#define TWIN_JUMP "jmp "
#elif defined(__aarch64__)
#define TWIN_JUMP "b "
#else
#error "no tail jump written for this machine"
#endif
#define P(name, suffix) \
	__asm__(".text\n\t.globl " #name #suffix "\n\t.type " #name #suffix \
		", %function\n" #name #suffix ":\n\t" TWIN_JUMP #name "\n\t.size " #name #suffix \
		", . - " #name #suffix);
SIM_JUMPING_TWINS(P)
#undef P

#define TWIN(name, params, ...) \
	cu_result name##_ptsz params \
	{ \
		if (!stream) \
			stream = STREAM_PER_THREAD; \
		return name(__VA_ARGS__); \
	}

TWIN(cuMemcpyHtoDAsync_v2, (cu_deviceptr to, const void *from, size_t size, cu_stream stream), to,
     from, size, stream)
TWIN(cuMemcpyDtoHAsync_v2, (void *to, cu_deviceptr from, size_t size, cu_stream stream), to, from,
     size, stream)
TWIN(cuMemcpyAsync, (cu_deviceptr to, cu_deviceptr from, size_t size, cu_stream stream), to, from,
     size, stream)
TWIN(cuStreamSynchronize, (cu_stream stream), stream)
TWIN(cuStreamGetCtx, (cu_stream stream, cu_context *context), stream, context)
TWIN(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned int flags), stream, event,
     flags)
TWIN(cuStreamWaitValue32_v2,
     (cu_stream stream, cu_deviceptr address, uint32_t value, unsigned int flags), stream, address,
     value, flags)
TWIN(cuStreamWaitValue64_v2,
     (cu_stream stream, cu_deviceptr address, cu_uint64 value, unsigned int flags), stream, address,
     value, flags)
TWIN(cuStreamWriteValue64_v2,
     (cu_stream stream, cu_deviceptr address, cu_uint64 value, unsigned int flags), stream, address,
     value, flags)
TWIN(cuLaunchHostFunc, (cu_stream stream, void (*function)(void *user), void *user), stream,
     function, user)
TWIN(cuStreamGetId, (cu_stream stream, unsigned long long *id), stream, id)
TWIN(cuGraphLaunch, (cu_graph_exec exec, cu_stream stream), exec, stream)
TWIN(cuStreamIsCapturing, (cu_stream stream, cu_capture_status *status), stream, status)
TWIN(cuStreamBeginCapture_v2, (cu_stream stream, cu_capture_mode mode), stream, mode)
TWIN(cuStreamEndCapture, (cu_stream stream, cu_graph *graph), stream, graph)
TWIN(cuEventRecord, (cu_event event, cu_stream stream), event, stream)
TWIN(cuMemPrefetchAsync, (cu_deviceptr pointer, size_t size, cu_device to, cu_stream stream),
     pointer, size, to, stream)
TWIN(cuMemPrefetchAsync_v2,
     (cu_deviceptr pointer, size_t size, cu_mem_location to, unsigned int flags, cu_stream stream),
     pointer, size, to, flags, stream)
TWIN(cuStreamAttachMemAsync,
     (cu_stream stream, cu_deviceptr pointer, size_t size, unsigned int flags), stream, pointer,
     size, flags)
