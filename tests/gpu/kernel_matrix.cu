/* SPDX-License-Identifier: MIT */
/*
 * An ordinary program with kernels, built by plain nvcc: each kind of memory, written by one kernel
 * and read by another, with results that don't depend on the order of threads.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS ((size_t)1 << 20)
#define TILE 32
#define SIDE 1024

static unsigned allocations;

static void must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	printf("%s: %s\n", what, cudaGetErrorName(error));
	exit(1);
}

__device__ unsigned long long total;

__global__ void fill(unsigned *words, size_t count, unsigned seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		words[i] = (unsigned)i * 2654435761u + seed;
}

__global__ void add(const unsigned *words, size_t count)
{
	unsigned long long mine = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		mine += words[i] ^ (unsigned long long)i;
	atomicAdd(&total, mine);
}

__global__ void transpose(unsigned *to, const unsigned *from, size_t to_pitch, size_t from_pitch)
{
	__shared__ unsigned tile[TILE][TILE + 1];
	unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;

	tile[threadIdx.y][threadIdx.x] = from[y * from_pitch + x];
	__syncthreads();
	x = blockIdx.y * TILE + threadIdx.x;
	y = blockIdx.x * TILE + threadIdx.y;
	to[y * to_pitch + x] = tile[threadIdx.x][threadIdx.y];
}

static void say_sum(const char *what, const unsigned *words, size_t count)
{
	unsigned long long sum = 0;

	must(cudaMemcpyToSymbol(total, &sum, sizeof(sum)), "cudaMemcpyToSymbol");
	add<<<256, 256>>>(words, count);
	must(cudaGetLastError(), "kernel launch");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpyFromSymbol(&sum, total, sizeof(sum)), "cudaMemcpyFromSymbol");
	printf("%s: %llu\n", what, sum);
}

static void plain(void)
{
	for (size_t count = 1; count <= WORDS * 16; count *= 16) {
		unsigned *words;

		must(cudaMalloc(&words, count * sizeof(*words)), "cudaMalloc");
		allocations++;
		fill<<<256, 256>>>(words, count, 3);
		say_sum("cudaMalloc", words, count);
		must(cudaFree(words), "cudaFree");
	}
}

static void managed(void)
{
	unsigned *words;

	must(cudaMallocManaged(&words, WORDS * sizeof(*words)), "cudaMallocManaged");
	fill<<<256, 256>>>(words, WORDS, 5);
	say_sum("cudaMallocManaged", words, WORDS);
	must(cudaFree(words), "cudaFree");
}

static void ordered(void)
{
	cudaStream_t stream;
	unsigned *words;

	must(cudaStreamCreate(&stream), "cudaStreamCreate");
	for (int i = 0; i < 10; i++) {
		must(cudaMallocAsync(&words, WORDS * sizeof(*words), stream), "cudaMallocAsync");
		allocations++;
		fill<<<256, 256, 0, stream>>>(words, WORDS, (unsigned)i);
		must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		say_sum("cudaMallocAsync", words, WORDS);
		must(cudaFreeAsync(words, stream), "cudaFreeAsync");
	}
	must(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

static void pitched(void)
{
	const dim3 grid(SIDE / TILE, SIDE / TILE), block(TILE, TILE);
	size_t pitch, to_pitch;
	unsigned *from, *to;

	must(cudaMallocPitch(&from, &pitch, SIDE * sizeof(*from), SIDE), "cudaMallocPitch");
	must(cudaMallocPitch(&to, &to_pitch, (SIDE + 8) * sizeof(*to), SIDE), "cudaMallocPitch");
	allocations += 2;
	must(cudaMemset(to, 0, to_pitch * SIDE), "cudaMemset");
	fill<<<256, 256>>>(from, pitch / sizeof(*from) * SIDE, 11);
	transpose<<<grid, block>>>(to, from, to_pitch / sizeof(*to), pitch / sizeof(*from));
	say_sum("cudaMallocPitch", to, to_pitch / sizeof(*to) * SIDE);
	must(cudaFree(from), "cudaFree");
	must(cudaFree(to), "cudaFree");
}

int main(void)
{
	plain();
	managed();
	ordered();
	pitched();
	printf("allocations: %u\n", allocations);
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	return 0;
}
