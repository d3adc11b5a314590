/* SPDX-License-Identifier: MIT */
/*
 * An ordinary CUDA graph program: memory of before the capture, memory that the capture allocates
 * and frees itself, the graph launched again and again; another thread works meanwhile.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS ((size_t)1 << 20)
#define LAUNCHES 20

static void must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	printf("%s: %s\n", what, cudaGetErrorName(error));
	exit(1);
}

__global__ void fill(unsigned *words, size_t count, unsigned seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		words[i] = (unsigned)i * seed;
}

__global__ void accumulate(unsigned *to, const unsigned *from, size_t count)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		to[i] = to[i] * 3 + from[i];
}

/* A capture of this mode lets others allocate. */
static void *allocate_beside(void *argument)
{
	unsigned *count = (unsigned *)argument;

	for (int i = 0; i < 10; i++) {
		void *pointer;

		must(cudaMalloc(&pointer, 1 << 20), "cudaMalloc beside the capture");
		must(cudaFree(pointer), "cudaFree beside the capture");
		++*count;
	}
	return NULL;
}

static cudaGraphExec_t capture(cudaStream_t stream, unsigned *words, cudaStreamCaptureMode mode)
{
	cudaGraphExec_t runnable;
	cudaGraph_t graph;
	unsigned *within;

	must(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
	must(cudaMallocAsync(&within, WORDS * sizeof(*within), stream),
	     "cudaMallocAsync in the capture");
	fill<<<256, 256, 0, stream>>>(within, WORDS, 2654435761u);
	accumulate<<<256, 256, 0, stream>>>(words, within, WORDS);
	must(cudaFreeAsync(within, stream), "cudaFreeAsync in the capture");
	must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
	must(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
	must(cudaGraphDestroy(graph), "cudaGraphDestroy");
	return runnable;
}

static void say_sum(const char *what, const unsigned *words)
{
	unsigned *host = (unsigned *)malloc(WORDS * sizeof(*host));
	unsigned long long sum = 0;

	must(cudaMemcpy(host, words, WORDS * sizeof(*host), cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (size_t i = 0; i < WORDS; i++)
		sum = sum * 31 + host[i];
	printf("%s: %016llx\n", what, sum);
	free(host);
}

int main(void)
{
	unsigned beside = 0, *words;
	cudaGraphExec_t strict, relaxed;
	cudaStream_t stream;
	pthread_t thread;
	void *invalid;

	must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	must(cudaMalloc(&words, WORDS * sizeof(*words)), "cudaMalloc");
	must(cudaMemset(words, 1, WORDS * sizeof(*words)), "cudaMemset");
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	strict = capture(stream, words, cudaStreamCaptureModeGlobal);
	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
	     "cudaStreamBeginCapture");
	must((cudaError_t)pthread_create(&thread, NULL, allocate_beside, &beside),
	     "pthread_create");
	pthread_join(thread, NULL);
	accumulate<<<256, 256, 0, stream>>>(words, words, WORDS);
	cudaGraph_t graph;
	must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
	must(cudaGraphInstantiate(&relaxed, graph, 0), "cudaGraphInstantiate");
	for (int i = 0; i < LAUNCHES; i++) {
		must(cudaGraphLaunch(strict, stream), "cudaGraphLaunch");
		must(cudaGraphLaunch(relaxed, stream), "cudaGraphLaunch");
	}
	must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	say_sum("after the graphs", words);
	/* What a strict capture forbids must be forbidden in the same words. */
	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
	printf("cudaMalloc in a strict capture: %s\n",
	       cudaGetErrorName(cudaMalloc(&invalid, 1 << 20)));
	printf("its end: %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
	cudaGetLastError();
	say_sum("at the end", words);
	must(cudaFree(words), "cudaFree");
	printf("allocations: %u\n", beside + 1);
	return 0;
}
