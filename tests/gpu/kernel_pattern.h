/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_KERNEL_PATTERN_H
#define TESTS_GPU_KERNEL_PATTERN_H
/*
 * Shared by the kernel programs: each stage writes and expects its own pattern, with a value for
 * every word.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pattern.h"

#define PATTERN_PATIENCE_MS 30000

static void must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

__global__ static void pattern_write(unsigned *words, size_t count, unsigned stage)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		words[i] = pattern(stage, i);
}

__global__ static void pattern_count(const unsigned *words, size_t count, unsigned stage,
				     unsigned long long *wrong)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		if (words[i] != pattern(stage, i))
			atomicAdd(wrong, 1ULL);
}

static void pattern_fill(unsigned *words, size_t count, unsigned stage)
{
	pattern_write<<<512, 256>>>(words, count, stage);
	must(cudaGetLastError(), "kernel launch");
	must(cudaDeviceSynchronize(), "kernel");
}

static unsigned long long pattern_wrong(const unsigned *words, size_t count, unsigned stage)
{
	static unsigned long long *counter;
	unsigned long long wrong = 0;

	if (!counter)
		must(cudaMallocManaged(&counter, sizeof(*counter)), "cudaMallocManaged");
	must(cudaMemcpy(counter, &wrong, sizeof(wrong), cudaMemcpyHostToDevice), "cudaMemcpy");
	pattern_count<<<512, 256>>>(words, count, stage, counter);
	must(cudaGetLastError(), "kernel launch");
	must(cudaMemcpy(&wrong, counter, sizeof(wrong), cudaMemcpyDeviceToHost), "cudaMemcpy");
	return wrong;
}

/*
 * Check by kernel until every word has the stage's value. Return how many words are wrong at the
 * end.
 */
static unsigned long long pattern_await(const unsigned *words, size_t count, unsigned stage)
{
	unsigned long long wrong = pattern_wrong(words, count, stage);

	for (int waited_ms = 0; wrong && waited_ms < PATTERN_PATIENCE_MS; waited_ms += 5) {
		usleep(5000);
		wrong = pattern_wrong(words, count, stage);
	}
	return wrong;
}

#endif
