/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SIM_CUDA_RUNTIME_H
#define GPUSHARE_SIM_CUDA_RUNTIME_H
/* Programs include this header. The toolkit's header of that name has the runtime's API and
 * more. */
#include "cuda_runtime_api.h"

#ifdef __cplusplus
/* As in the toolkit's: a C++ program's pointers have their own types. */
template <class T> cudaError_t cudaMalloc(T **pointer, size_t size)
{
	return cudaMalloc((void **)pointer, size);
}

template <class T>
cudaError_t cudaMallocManaged(T **pointer, size_t size, unsigned int flags = cudaMemAttachGlobal)
{
	return cudaMallocManaged((void **)pointer, size, flags);
}

template <class T> cudaError_t cudaMallocHost(T **pointer, size_t size)
{
	return cudaMallocHost((void **)pointer, size);
}

template <class T> cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream)
{
	return cudaMallocAsync((void **)pointer, size, stream);
}
#endif

#endif
