/* SPDX-License-Identifier: MIT */
/* Copies and fills, each by the driver call that the runtime uses for that direction. */
#include "runtime_sim.h"

static cudaError_t copy_now(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
			    enum runtime_stream mode)
{
	if (!count)
		return cudaSuccess;
	switch (kind) {
	case cudaMemcpyHostToDevice:
		RUNTIME_RUN(mode, cuMemcpyHtoD, (uintptr_t)to, from, count);
	case cudaMemcpyDeviceToHost:
		RUNTIME_RUN(mode, cuMemcpyDtoH, to, (uintptr_t)from, count);
	case cudaMemcpyDeviceToDevice:
		RUNTIME_RUN(mode, cuMemcpyDtoD, (uintptr_t)to, (uintptr_t)from, count);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		RUNTIME_RUN(mode, cuMemcpy, (uintptr_t)to, (uintptr_t)from, count);
	}
	return runtime_note(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t count, enum cudaMemcpyKind kind)
{
	return copy_now(to, from, count, kind, RUNTIME_LEGACY);
}

cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t count, enum cudaMemcpyKind kind)
{
	return copy_now(to, from, count, kind, RUNTIME_PER_THREAD);
}

static cudaError_t copy_queue(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
			      cudaStream_t stream, enum runtime_stream mode)
{
	cu_stream queue = (cu_stream)stream;

	if (!count)
		return cudaSuccess;
	switch (kind) {
	case cudaMemcpyHostToDevice:
		RUNTIME_RUN(mode, cuMemcpyHtoDAsync, (uintptr_t)to, from, count, queue);
	case cudaMemcpyDeviceToHost:
		RUNTIME_RUN(mode, cuMemcpyDtoHAsync, to, (uintptr_t)from, count, queue);
	case cudaMemcpyDeviceToDevice:
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		RUNTIME_RUN(mode, cuMemcpyAsync, (uintptr_t)to, (uintptr_t)from, count, queue);
	}
	return runtime_note(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return copy_queue(to, from, count, kind, stream, RUNTIME_LEGACY);
}

cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
				 cudaStream_t stream)
{
	return copy_queue(to, from, count, kind, stream, RUNTIME_PER_THREAD);
}

static cudaError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			     size_t width, size_t height, enum cudaMemcpyKind kind,
			     enum runtime_stream mode)
{
	if (width > to_pitch || width > from_pitch)
		return runtime_note((cudaError_t)12); /* cudaErrorInvalidPitchValue */
	for (size_t row = 0; row < height; row++) {
		cudaError_t error =
		    copy_now((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
			     width, kind, mode);
		if (error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			 size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, RUNTIME_LEGACY);
}

cudaError_t cudaMemcpy2D_ptds(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			      size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, RUNTIME_PER_THREAD);
}

static cudaError_t copy_fill(void *to, int value, size_t count, enum runtime_stream mode)
{
	RUNTIME_RUN(mode, cuMemsetD8, (uintptr_t)to, (unsigned char)value, count);
}

cudaError_t cudaMemset(void *to, int value, size_t count)
{
	return copy_fill(to, value, count, RUNTIME_LEGACY);
}

cudaError_t cudaMemset_ptds(void *to, int value, size_t count)
{
	return copy_fill(to, value, count, RUNTIME_PER_THREAD);
}

/* The simulated driver runs a fill in the call, so a fill needs no stream. */
cudaError_t cudaMemsetAsync(void *to, int value, size_t count, cudaStream_t stream)
{
	return copy_fill(to, value, count, RUNTIME_LEGACY);
}

cudaError_t cudaMemsetAsync_ptsz(void *to, int value, size_t count, cudaStream_t stream)
{
	return copy_fill(to, value, count, RUNTIME_PER_THREAD);
}
