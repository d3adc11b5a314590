/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_GPU_SCRIPT_H
#define TESTS_E2E_GPU_SCRIPT_H
/*
 * Verbs of a program that uses a GPU and knows nothing of gpushare. The program fills in `gpu`: the
 * calls of the API that it uses.
 */

#include "nodes.h"
#include "script_child.h"
#include "script_life.h"

struct gpu_slot;

/* Each returns the API's own code; 0 is success. */
struct gpu {
	int (*init)(void);
	int (*device)(int ordinal);
	int (*alloc)(uint64_t *out_pointer, size_t size);
	int (*pitch)(uint64_t *out_pointer, size_t *out_pitch, size_t width, size_t height);
	int (*free)(uint64_t pointer);
	int (*write)(uint64_t to, const void *from, size_t size);
	int (*read)(void *to, uint64_t from, size_t size);
	/* Allocate and free by one of the API's ways; the slot has the size. `stream` is a letter;
	 * '\0': the default stream. */
	int (*make)(struct gpu_slot *slot, const char *way, char stream);
	int (*drop)(struct gpu_slot *slot, const char *way, char stream);
};

static struct gpu gpu;

static struct gpu_slot {
	uint64_t pointer;
	size_t size;	 /* of the whole allocation */
	uint64_t object; /* way vmm: handle of the mapped memory */
	char way[24];	 /* by which it was allocated */
} gpu_slots[128];

static bool gpu_shows_errno;
#define GPU_ERRNO 77

static struct gpu_slot *gpu_slot(const char *name)
{
	return &gpu_slots[(unsigned char)name[0] & 127];
}

/* Print `verb slot: code`, and errno as the call left it if the script has the verb errno. */
static void gpu_say(const char *verb, const char *slot, int code)
{
	int error = errno;

	printf("%s %s: %d", verb, slot, code);
	if (gpu_shows_errno)
		printf(" errno %d", error);
	putchar('\n');
}

VERB(init, 0, 0)
{
	printf("init: %d\n", gpu.init());
}

VERB(device, 1, 1)
{
	printf("device %s: %d\n", argument[0], gpu.device((int)script_number(argument[0])));
}

VERB(errno, 0, 0)
{
	gpu_shows_errno = true;
}

/* alloc=SLOT,SIZE */
VERB(alloc, 2, 2)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	int code;

	slot->size = script_number(argument[1]);
	errno = GPU_ERRNO;
	code = gpu.alloc(&slot->pointer, slot->size);
	gpu_say("alloc", argument[0], code);
}

/* pitch=SLOT,WIDTH,HEIGHT: print the size of the whole allocation; the device decides it */
VERB(pitch, 3, 3)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	size_t height = script_number(argument[2]), pitch = 0;
	int code = gpu.pitch(&slot->pointer, &pitch, script_number(argument[1]), height);

	slot->size = pitch * height;
	printf("pitch %s: %d %zu\n", argument[0], code, slot->size);
}

VERB(free, 1, 1)
{
	int code;

	errno = GPU_ERRNO;
	code = gpu.free(gpu_slot(argument[0])->pointer);
	gpu_say("free", argument[0], code);
}

/* fill=SLOT,SEED: write a pattern. A write from pageable memory may return before the bytes have
 * arrived. So read a byte afterwards: then other processes see the pattern. */
VERB(fill, 2, 2)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	unsigned char *bytes = script_pattern_new(script_number(argument[1]), slot->size);
	int code;

	errno = GPU_ERRNO;
	code = gpu.write(slot->pointer, bytes, slot->size);
	if (!code)
		code = gpu.read(bytes, slot->pointer, 1);
	gpu_say("fill", argument[0], code);
	free(bytes);
}

/* put=SLOT,OFFSET,VALUE */
VERB(put, 3, 3)
{
	unsigned char byte = (unsigned char)script_number(argument[2]);

	errno = GPU_ERRNO;
	gpu_say("put", argument[0],
		gpu.write(gpu_slot(argument[0])->pointer + script_number(argument[1]), &byte, 1));
}

/* byte=SLOT,OFFSET */
VERB(byte, 2, 2)
{
	unsigned char byte = 0;
	int code = gpu.read(&byte, gpu_slot(argument[0])->pointer + script_number(argument[1]), 1);

	if (code)
		printf("byte %s: error %d\n", argument[0], code);
	else
		printf("byte %s: %d\n", argument[0], byte);
}

/* save=SLOT,FILE */
VERB(save, 2, 2)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	unsigned char *bytes = script_pattern_new(0, slot->size);

	gpu_say("save", argument[0], gpu.read(bytes, slot->pointer, slot->size));
	script_save(argument[1], bytes, slot->size);
	free(bytes);
}

/* link=SLOT, walk=SLOT: see nodes.h */
VERB(link, 1, 1)
{
	gpu_say("link", argument[0], nodes_link(gpu_slot(argument[0])->pointer, gpu.write));
}

VERB(walk, 1, 1)
{
	printf("walk %s: %ld\n", argument[0], nodes_walk(gpu_slot(argument[0])->pointer, gpu.read));
}

static void *gpu_alloc_from_thread(void *size)
{
	uint64_t pointer = 0;

	return (void *)(intptr_t)gpu.alloc(&pointer, (size_t)(uintptr_t)size);
}

/* threads=COUNT,SIZE: COUNT threads allocate at the same time */
VERB(threads, 2, 2)
{
	int threads = (int)script_number(argument[0]), failed = 0;
	void *size = (void *)(uintptr_t)script_number(argument[1]), *code;
	pthread_t thread[64];

	if (threads > 64)
		script_stop("too many threads");
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, gpu_alloc_from_thread, size))
			script_stop("pthread_create failed");
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], &code);
		failed += code != NULL;
	}
	printf("threads: %d failed\n", failed);
}

#endif
