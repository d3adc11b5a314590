/* SPDX-License-Identifier: MIT */
/*
 * Prints how many bytes of its thread's stack each driver call takes: a line "CALL BYTES" per call.
 *   app_stack STACK WAY...   WAY: malloc, managed, async; hold: a cuMemAlloc without a free;
 *                            touch=FILE; await=FILE
 * The thread's stack has STACK bytes. The unused part is painted before each call, and BYTES is how
 * far down the call has overwritten the paint. Each way runs three times, so that the test can tell
 * the first call from later ones, which do less.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app_driver.h"

#define PAINT 0xa5
#define SIZE (2UL << 20)
#define TIMES 3

static cu_cuMemAllocManaged_call *alloc_managed;
static cu_cuMemAllocAsync_call *alloc_async;
static cu_cuMemFreeAsync_call *release_async;
static unsigned char *stack;
static size_t stack_size;
static char **ways;

/* Paint the stack from its lowest address up to this frame, less 256 bytes for painting itself. */
__attribute__((noinline)) static void paint(void)
{
	volatile unsigned char *end = (unsigned char *)__builtin_frame_address(0) - 256;

	for (volatile unsigned char *at = stack; at < end; at++)
		*at = PAINT;
}

/* Return how many bytes below this frame have been overwritten. */
__attribute__((noinline)) static size_t written(void)
{
	const unsigned char *top = __builtin_frame_address(0), *at = stack;

	while (at < top && *at == PAINT)
		at++;
	return (size_t)(top - at);
}

#define TAKES(what, call) \
	do { \
		int result; \
		size_t bytes; \
\
		paint(); \
		result = call; \
		bytes = written(); \
		must(result, what); \
		printf("%s %zu\n", what, bytes); \
	} while (0)

static void go(const char *way)
{
	cu_deviceptr pointer;

	if (!strncmp(way, "touch=", 6)) {
		must(close(open(way + 6, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), way);
	} else if (!strncmp(way, "await=", 6)) {
		while (access(way + 6, F_OK))
			usleep(5000);
	} else if (!strcmp(way, "hold")) {
		TAKES("cuMemAlloc", alloc(&pointer, SIZE));
	} else if (!strcmp(way, "malloc")) {
		TAKES("cuMemAlloc", alloc(&pointer, SIZE));
		TAKES("cuMemFree", release(pointer));
	} else if (!strcmp(way, "managed")) {
		TAKES("cuMemAllocManaged", alloc_managed(&pointer, SIZE, 1));
		TAKES("cuMemFree", release(pointer));
	} else {
		TAKES("cuMemAllocAsync", alloc_async(&pointer, SIZE, NULL));
		TAKES("cuMemFreeAsync", release_async(pointer, NULL));
	}
}

static void *work(void *user)
{
	must(set_current(context), "cuCtxSetCurrent");
	for (char **way = ways; *way; way++)
		for (int i = 0; i < (strchr(*way, '=') ? 1 : TIMES); i++)
			go(*way);
	return user;
}

int main(int argc, char **argv)
{
	static char line[4096]; /* so that printf() has no buffer on the stack */
	pthread_attr_t attributes;
	pthread_t thread;
	void *library;

	if (argc < 3)
		return 2;
	setvbuf(stdout, line, _IOFBF, sizeof(line));
	stack_size = strtoul(argv[1], NULL, 0);
	ways = argv + 2;
	library = start();
	alloc_managed = (cu_cuMemAllocManaged_call *)find(library, "cuMemAllocManaged");
	alloc_async = (cu_cuMemAllocAsync_call *)find(library, "cuMemAllocAsync");
	release_async = (cu_cuMemFreeAsync_call *)find(library, "cuMemFreeAsync");
	stack = mmap(NULL, stack_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	must(stack == MAP_FAILED, "mmap");
	pthread_attr_init(&attributes);
	must(pthread_attr_setstack(&attributes, stack, stack_size), "pthread_attr_setstack");
	must(pthread_create(&thread, &attributes, work, NULL), "pthread_create");
	pthread_join(thread, NULL);
	return 0;
}
