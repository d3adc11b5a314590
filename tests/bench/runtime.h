/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_RUNTIME_H
#define TESTS_BENCH_RUNTIME_H
/* The runtime's calls as the toolkit declares them, so that measuring needs no toolkit. */
#include <stddef.h>

#include "cuda/cuda_abi.h"

#define RUNTIME_PUBLIC __attribute__((visibility("default")))

RUNTIME_PUBLIC int cudaMalloc(void **pointer, size_t size);
RUNTIME_PUBLIC int cudaFree(void *pointer);
RUNTIME_PUBLIC int cudaMallocAsync(void **pointer, size_t size, cu_stream stream);
RUNTIME_PUBLIC int cudaFreeAsync(void *pointer, cu_stream stream);

#endif
