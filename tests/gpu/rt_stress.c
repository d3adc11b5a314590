/* SPDX-License-Identifier: MIT */
/*
 * Many threads that allocate and free, half of it stream-ordered, and check each time that the
 * memory still holds what they wrote. In every fourth round, another thread frees the buffer.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "rt_check.h"

#define THREADS 16
#define ROUNDS 100
#define LIVE 8
#define SIZE_MAX_LOG 21

struct buffer {
	unsigned char *pointer;
	size_t size;
	int tag;
	int ordered;
};

struct thread {
	unsigned int number;
	cudaStream_t stream;
	struct buffer live[LIVE];
};

static struct buffer *_Atomic handed_over[THREADS];
static atomic_uint allocations, wrong;

static unsigned int step(unsigned int *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void make(struct thread *thread, struct buffer *buffer, unsigned int random)
{
	void *pointer = NULL;

	buffer->size = ((size_t)1 << (9 + random % (SIZE_MAX_LOG - 8))) + random % 3 * 511;
	buffer->tag = (int)(thread->number * 16 + random % 16);
	buffer->ordered = random / 64 % 2;
	if (buffer->ordered)
		rt_must(cudaMallocAsync(&pointer, buffer->size, thread->stream), "cudaMallocAsync");
	else
		rt_must(cudaMalloc(&pointer, buffer->size), "cudaMalloc");
	buffer->pointer = pointer;
	allocations++;
	rt_must(cudaMemsetAsync(pointer, buffer->tag, buffer->size, thread->stream),
		"cudaMemsetAsync");
	rt_must(cudaStreamSynchronize(thread->stream), "cudaStreamSynchronize");
}

static void look(struct thread *thread, const struct buffer *buffer)
{
	const size_t places[] = {0, buffer->size / 2, buffer->size - 1};
	unsigned char byte = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		rt_must(cudaMemcpyAsync(&byte, buffer->pointer + places[i], 1,
					cudaMemcpyDeviceToHost, thread->stream),
			"cudaMemcpyAsync");
		rt_must(cudaStreamSynchronize(thread->stream), "cudaStreamSynchronize");
		if (byte != (unsigned char)buffer->tag)
			wrong++;
	}
}

static void end(struct thread *thread, struct buffer *buffer)
{
	if (!buffer->pointer)
		return;
	look(thread, buffer);
	if (buffer->ordered)
		rt_must(cudaFreeAsync(buffer->pointer, thread->stream), "cudaFreeAsync");
	else
		rt_must(cudaFree(buffer->pointer), "cudaFree");
	buffer->pointer = NULL;
}

/* Leave a buffer for the next thread, and free the buffers that were left here. */
static void hand_over(struct thread *thread, struct buffer *buffer)
{
	struct buffer *left = malloc(sizeof(*left));

	*left = *buffer;
	buffer->pointer = NULL;
	left = atomic_exchange(&handed_over[(thread->number + 1) % THREADS], left);
	if (left)
		end(thread, left);
	free(left);
	left = atomic_exchange(&handed_over[thread->number], NULL);
	if (left)
		end(thread, left);
	free(left);
}

static void *work(void *argument)
{
	struct thread *thread = argument;
	unsigned int state = thread->number * 7919 + 1;

	rt_must(cudaStreamCreateWithFlags(&thread->stream, cudaStreamNonBlocking),
		"cudaStreamCreate");
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int random = step(&state);
		struct buffer *buffer = &thread->live[random % LIVE];

		end(thread, buffer);
		make(thread, buffer, step(&state));
		if (round % 4 == 3)
			hand_over(thread, buffer);
	}
	for (int i = 0; i < LIVE; i++)
		end(thread, &thread->live[i]);
	rt_must(cudaStreamSynchronize(thread->stream), "cudaStreamSynchronize");
	return NULL;
}

int main(void)
{
	static struct thread threads[THREADS];
	pthread_t ids[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		threads[i].number = i;
		if (pthread_create(&ids[i], NULL, work, &threads[i]))
			return 1;
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	for (unsigned int i = 0; i < THREADS; i++)
		if (handed_over[i]) {
			end(&threads[i], handed_over[i]);
			free(handed_over[i]);
		}
	printf("allocations: %u\nwrong bytes: %u\n", allocations, wrong);
	rt_say("cudaDeviceSynchronize", cudaDeviceSynchronize());
	return wrong != 0;
}
