/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_RT_CHECK_H
#define TESTS_GPU_RT_CHECK_H
/* Shared by the runtime programs of the matrix: a check, a checksum, and bytes to compare. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void rt_must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	printf("%s: %s\n", what, cudaGetErrorName(error));
	exit(1);
}

/* Print the error's name, and clear the error for the next call. */
static inline void rt_say(const char *what, cudaError_t error)
{
	printf("%s: %s\n", what, cudaGetErrorName(error));
	cudaGetLastError();
}

static inline uint64_t rt_sum(uint64_t sum, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3;
	return sum;
}

static inline void rt_fill(void *data, size_t size, unsigned int seed)
{
	unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 7);
}

#endif
