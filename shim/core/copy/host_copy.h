/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOST_COPY_H
#define GPUSHARE_SHIM_HOST_COPY_H
/*
 * Copies by the CPU to and from device memory that is mapped write-combined. Stores to such memory
 * are fast if whole lines bypass the cache. Loads are fast only if each fetches a whole line. So
 * the copies are aligned to the device address, not the host's. No byte outside the given ranges is
 * touched. A naturally aligned word of up to 8 bytes of device memory is stored in one access.
 */
#include <stdbool.h>
#include <stddef.h>

/* When this returns, the stores are on their way to the GPU: work that is launched afterwards sees
 * them. */
void host_copy_to(void *device, const void *host, size_t size);
/* Loads see what the GPU wrote before the call. */
void host_copy_from(void *host, const void *device, size_t size);
/* Completes stores to write-combined memory, which may stay in the CPU's buffers until a fence. */
void host_copy_fence_stores(void);

/* W(name, to): the implementations, most preferred first; `to` is a store function, NAME_from()
 * loads. host_copy_to() and host_copy_from() use the first one that the CPU can run. */
#if defined(__x86_64__)
/* avx512 uses sse41_to(): wider stores gain nothing, as each line leaves the CPU whole anyway. */
#define HOST_COPY_WAYS(W) W(avx512, sse41_to) W(sse41, sse41_to) W(words, words_to)
#elif defined(__aarch64__)
#define HOST_COPY_WAYS(W) W(pairs, pairs_to) W(words, words_to)
#endif

struct host_copy_way {
	const char *name;
	bool (*usable)(void);
	void (*to)(char *device, const char *host, size_t size);
	void (*from)(char *host, const char *device, size_t size);
};

/* In the order of HOST_COPY_WAYS; the name of the last is NULL. */
extern const struct host_copy_way host_copy_ways[];
const struct host_copy_way *host_copy_best(void);

#endif
