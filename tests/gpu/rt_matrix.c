/* SPDX-License-Identifier: MIT */
/*
 * An ordinary runtime program without kernels, the same for every cudart from 11.2 on: allocations
 * of each kind, wrong frees, contents checked by a checksum. Prints nothing that may differ between
 * runs.
 */
#include "rt_check.h"

static const size_t sizes[] = {1, 512, 4097, 1 << 20, (1 << 20) + 1, 2 << 20, 3 << 20, 20 << 20};
#define COUNT (sizeof(sizes) / sizeof(*sizes))
#define BIGGEST ((size_t)20 << 20)

static unsigned char *host;
static unsigned int allocations;

static void *alloc(size_t size)
{
	void *pointer = NULL;

	rt_must(cudaMalloc(&pointer, size), "cudaMalloc");
	allocations++;
	return pointer;
}

static uint64_t sum_of(uint64_t sum, const void *pointer, size_t size)
{
	memset(host, 0, size);
	rt_must(cudaMemcpy(host, pointer, size, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
	return rt_sum(sum, host, size);
}

static void plain(void)
{
	void *pointers[COUNT];
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT; i++) {
		pointers[i] = alloc(sizes[i]);
		rt_fill(host, sizes[i], (unsigned int)i);
		rt_must(cudaMemcpy(pointers[i], host, sizes[i], cudaMemcpyHostToDevice),
			"cudaMemcpy");
	}
	for (size_t i = 1; i < COUNT; i++)
		rt_must(cudaMemcpy(pointers[i], pointers[i - 1], sizes[i - 1] / 2,
				   cudaMemcpyDeviceToDevice),
			"cudaMemcpy between buffers");
	for (size_t i = 0; i < COUNT; i += 2)
		rt_must(cudaMemset(pointers[i], (int)i, sizes[i] / 3), "cudaMemset");
	for (size_t i = 0; i < COUNT; i++) {
		sum = sum_of(sum, pointers[i], sizes[i]);
		printf("buffer of %zu bytes: %016llx\n", sizes[i], (unsigned long long)sum);
	}
	for (size_t i = 0; i < COUNT; i++)
		rt_must(cudaFree(pointers[(i * 3) % COUNT]), "cudaFree");
}

static void wrong(void)
{
	void *pointer = alloc(4 << 20), *none = (void *)1;

	rt_say("cudaFree of nothing", cudaFree(NULL));
	rt_say("cudaMalloc of 0 bytes", cudaMalloc(&none, 0));
	printf("and its pointer is %s\n", none ? "not null" : "null");
	rt_say("cudaMalloc of 256 TiB", cudaMalloc(&none, (size_t)1 << 48));
	rt_say("cudaFree of an interior pointer", cudaFree((char *)pointer + 512));
	rt_say("cudaFree of a host pointer", cudaFree(host));
	rt_say("cudaFree", cudaFree(pointer));
	rt_say("cudaFree a second time", cudaFree(pointer));
}

static void pitched(void)
{
	const size_t width = 1000, height = 333;
	void *pointer = NULL;
	size_t pitch = 0;

	rt_must(cudaMallocPitch(&pointer, &pitch, width, height), "cudaMallocPitch");
	allocations++;
	rt_fill(host, width * height, 99);
	rt_must(cudaMemcpy2D(pointer, pitch, host, width, width, height, cudaMemcpyHostToDevice),
		"cudaMemcpy2D");
	memset(host, 0, width * height);
	rt_must(cudaMemcpy2D(host, width, pointer, pitch, width, height, cudaMemcpyDeviceToHost),
		"cudaMemcpy2D to the host");
	printf("pitched, %zu bytes a row: %016llx\n", pitch,
	       (unsigned long long)rt_sum(0, host, width * height));
	rt_must(cudaFree(pointer), "cudaFree");
}

static void ordered(void)
{
	cudaStream_t stream;
	void *pointer = NULL, *other = NULL;
	uint64_t sum = 0;

	rt_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	for (size_t i = 0; i < 2 * COUNT; i++) {
		size_t size = sizes[i % COUNT];

		rt_must(cudaMallocAsync(&pointer, size, stream), "cudaMallocAsync");
		rt_must(cudaMallocAsync(&other, size, stream), "cudaMallocAsync");
		allocations += 2;
		rt_must(cudaMemsetAsync(pointer, (int)i + 1, size, stream), "cudaMemsetAsync");
		rt_must(cudaMemcpyAsync(other, pointer, size, cudaMemcpyDeviceToDevice, stream),
			"cudaMemcpyAsync");
		rt_must(cudaFreeAsync(pointer, stream), "cudaFreeAsync");
		rt_must(cudaMemcpyAsync(host, other, size, cudaMemcpyDeviceToHost, stream),
			"cudaMemcpyAsync to the host");
		rt_must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		sum = rt_sum(sum, host, size);
		if (i % 2)
			rt_must(cudaFreeAsync(other, stream), "cudaFreeAsync");
		else
			rt_must(cudaFree(other), "cudaFree of stream-ordered memory");
	}
	printf("stream-ordered: %016llx\n", (unsigned long long)sum);
	rt_must(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

static void managed(void)
{
	void *pointer = NULL;

	rt_must(cudaMallocManaged(&pointer, 1 << 20, cudaMemAttachGlobal), "cudaMallocManaged");
	rt_must(cudaMemset(pointer, 5, 1 << 20), "cudaMemset");
	rt_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	printf("managed: %016llx\n", (unsigned long long)rt_sum(0, pointer, 1 << 20));
	rt_must(cudaFree(pointer), "cudaFree of managed memory");
}

/* The driver may return the same address again, so each round has its own contents. */
static void again_and_again(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < 100; i++) {
		void *pointer = alloc(sizes[(size_t)i % COUNT]);

		rt_must(cudaMemset(pointer, i, sizes[(size_t)i % COUNT]), "cudaMemset");
		sum = sum_of(sum, pointer,
			     sizes[(size_t)i % COUNT] < 4097 ? sizes[(size_t)i % COUNT] : 4097);
		rt_must(cudaFree(pointer), "cudaFree");
	}
	printf("again and again: %016llx\n", (unsigned long long)sum);
}

int main(void)
{
	int version = 0;

	host = malloc(BIGGEST);
	rt_must(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
	printf("version: runtime %d.%d\n", version / 1000, version % 1000 / 10);
	plain();
	wrong();
	pitched();
	ordered();
	managed();
	again_and_again();
	alloc(1 << 20); /* never freed: the end of the process releases it */
	printf("allocations: %u\n", allocations);
	rt_say("cudaDeviceSynchronize", cudaDeviceSynchronize());
	free(host);
	return 0;
}
