/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_KEEP_H
#define GPUSHARE_TESTS_API_KEEP_H
/* Verbs of api_app for what outlives its owner, is read-only, or is wanted at one address. */
#include <dlfcn.h>

#include "cuda_abi.h"
#include "gpushare.h"
#include "script.h"

/* NODES of them, each pointing to the one before; the first is the last that was written. */
struct keep_node {
	uint64_t next; /* a device pointer */
	uint64_t value;
};
#define KEEP_NODES 100

/* keep+readonly+vmm+adopt+ttl:SECONDS, some of them, or none */
static struct gpushare_alloc_options keep_options(char *words)
{
	struct gpushare_alloc_options options = {.device = -1};
	char *rest = words;

	for (char *word; (word = strsep(&rest, "+"));) {
#define X(name, value, text) \
	if (!strcmp(word, text)) \
		options.flags |= value;
		GPUSHARE_FLAGS(X)
#undef X
		if (!strcmp(word, "adopt"))
			options.adopt = 1;
		if (!strncmp(word, "ttl:", 4))
			options.ttl_s = (uint32_t)script_number(word + 4);
		if (!strcmp(word, "strange"))
			options.flags |= 64;
	}
	return options;
}

/* How each node lies in the buffer: apart, and not in order. */
static size_t keep_place(int node)
{
	return (size_t)(node * 37 % KEEP_NODES) * 4096;
}

static int keep_link(struct gpushare_buffer *buffer)
{
	uint64_t before = 0;
	int status = GPUSHARE_OK;

	for (int i = 0; !status && i < KEEP_NODES; i++) {
		const struct keep_node node = {before, (uint64_t)i};

		before = gpushare_pointer(buffer) + keep_place(i);
		status = gpushare_copy_to(buffer, keep_place(i), &node, sizeof(node));
	}
	return status;
}

/* The sum of what hangs together, by the device pointers in it; -1: one of them leads nowhere. */
static long keep_walk(const struct gpushare_buffer *buffer)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	struct keep_node node = {gpushare_pointer(buffer) + keep_place(KEEP_NODES - 1), 0};
	cu_context context;
	long sum = 0;

#define CALL(name) cu_##name##_call *name = library ? dlsym(library, #name) : NULL
	CALL(cuDevicePrimaryCtxRetain);
	CALL(cuCtxSetCurrent);
	CALL(cuMemcpyDtoH_v2);
#undef CALL
	if (!cuDevicePrimaryCtxRetain || !cuCtxSetCurrent || !cuMemcpyDtoH_v2 ||
	    cuDevicePrimaryCtxRetain(&context, gpushare_device(buffer)) || cuCtxSetCurrent(context))
		script_stop("walk: a driver call failed");
	for (int i = 0; node.next && i <= KEEP_NODES; i++) {
		if (cuMemcpyDtoH_v2(&node, node.next, sizeof(node)))
			return -1;
		sum += (long)node.value;
	}
	return sum;
}

#endif
