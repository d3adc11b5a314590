/* SPDX-License-Identifier: MIT */
/* Copies and fills, each by the driver call that the runtime uses for that direction. */
#include "runtime_sim.h"

RUNTIME_TWINS(cudaMemcpy, _ptds,
	      (void *to, const void *from, size_t count, enum cudaMemcpyKind kind),
	      (to, from, count, kind))
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

RUNTIME_TWINS(cudaMemcpyAsync, _ptsz,
	      (void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
	       cudaStream_t stream),
	      (to, from, count, kind, stream))
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

RUNTIME_TWINS(cudaMemcpy2D, _ptds,
	      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t height, enum cudaMemcpyKind kind),
	      (to, to_pitch, from, from_pitch, width, height, kind))
{
	if (width > to_pitch || width > from_pitch)
		return runtime_note((cudaError_t)12); /* cudaErrorInvalidPitchValue */
	for (size_t row = 0; row < height; row++) {
		cudaError_t error =
		    cudaMemcpy_by(mode, (char *)to + row * to_pitch,
				  (const char *)from + row * from_pitch, width, kind);
		if (error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

RUNTIME_TWINS(cudaMemset, _ptds, (void *to, int value, size_t count), (to, value, count))
{
	RUNTIME_RUN(mode, cuMemsetD8, (uintptr_t)to, (unsigned char)value, count);
}

/* The simulated driver runs a fill in the call, so a fill needs no stream. */
RUNTIME_TWINS(cudaMemsetAsync, _ptsz, (void *to, int value, size_t count, cudaStream_t stream),
	      (to, value, count, stream))
{
	return cudaMemset_by(mode, to, value, count);
}
