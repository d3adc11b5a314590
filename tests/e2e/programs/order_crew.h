/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_ORDER_CREW_H
#define TESTS_E2E_ORDER_CREW_H
/* For api_order and its variants: the driver's calls, frames whose content shows if they are torn,
 * and one-byte messages between the processes. */
#include <dlfcn.h>
#include <errno.h>
#include <gpushare.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_abi.h"

#define WORDS 1024 /* per frame */
#define FRAME ((size_t)WORDS * sizeof(uint64_t))
#define PATIENCE_MS 60000

static struct {
#define F(since, version, name, params) cu_##name##_call *name;
	CUDA_ABI_CALLS(F)
#undef F
} cu;

static inline void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "api_order %d: %s: %s\n", (int)getpid(), what, gpushare_explain());
	exit(1);
}
#define MUST(call) must((call) == 0, #call)

/* Load the driver, and make device 0's primary context current. */
static inline void crew_start_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_context context;
	cu_device device;

	must(library != NULL, "libcuda.so.1");
#define F(since, version, name, params) cu.name = (cu_##name##_call *)dlsym(library, #name);
	CUDA_ABI_CALLS(F)
#undef F
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
	MUST(cu.cuCtxSetCurrent(context));
}

static inline void frame_fill(uint64_t *frame, uint64_t number)
{
	for (uint64_t i = 0; i < WORDS; i++)
		frame[i] = number * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static inline void frame_check(const uint64_t *frame, uint64_t number)
{
	for (uint64_t i = 0; i < WORDS; i++) {
		if (frame[i] == number * UINT64_C(0x9e3779b97f4a7c15) + i)
			continue;
		fprintf(stderr, "api_order %d: frame %" PRIu64 " is torn at word %" PRIu64 "\n",
			(int)getpid(), number, i);
		exit(1);
	}
}

static inline size_t frame_offset(uint64_t number, uint64_t slots)
{
	return (size_t)((number - 1) % slots) * FRAME;
}

static inline void *pinned(size_t size)
{
	void *host = NULL;

	MUST(cu.cuMemHostAlloc(&host, size, CU_HOST_ALLOC_PORTABLE));
	return host;
}

static inline void tell(int fd)
{
	must(write(fd, "x", 1) == 1, "telling the others");
}

static inline void hear(int fd)
{
	char byte;

	must(read(fd, &byte, 1) == 1, "hearing from the others");
}

/* The ends of pipes by which a child tells crew_run() that it is ready, and waits for its go. */
struct crew_pipes {
	int ready, go; /* -1: don't tell, don't wait */
};

static inline void crew_fork(void (*work)(void *part, unsigned int index), void *part,
			     unsigned int index)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid)
		return;
	work(part, index);
	fflush(stdout);
	_exit(0);
}

/* Run a producer, which is index 0, and `consumers` consumers. The producer starts after all
 * consumers are ready. Return false if a process failed. */
static inline bool crew_run(unsigned int consumers, struct crew_pipes *pipes,
			    void (*work)(void *part, unsigned int index), void *part)
{
	int ready[2], go[2], failed = 0, status;

	must(!pipe(ready) && !pipe(go), "pipe");
	pipes->ready = ready[1];
	pipes->go = go[0];
	for (unsigned int index = 0; index <= consumers; index++)
		crew_fork(work, part, index);
	close(ready[1]);
	close(go[0]);
	for (unsigned int index = 0; index < consumers; index++)
		hear(ready[0]);
	tell(go[1]);
	for (unsigned int index = 0; index <= consumers; index++) {
		must(wait(&status) > 0, "wait");
		failed |= status;
	}
	return !failed;
}

#endif
