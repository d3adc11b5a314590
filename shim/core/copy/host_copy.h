/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOST_COPY_H
#define GPUSHARE_SHIM_HOST_COPY_H
/*
 * Copies by the CPU to and from device memory that is mapped write-combined. There a store is fast
 * when whole lines go out past the cache, and a load only when a whole line comes at once; so the
 * device's side sets the alignment. No byte is touched, on either side, that was not asked for, and
 * a word of up to 8 bytes that lies on its own size on the device's side is stored at once.
 */
#include <stdbool.h>
#include <stddef.h>

/* When it returns, the stores are on their way to the GPU: work launched afterwards sees them. */
void host_copy_to(void *device, const void *host, size_t size);
/* What the GPU wrote before the call is seen. */
void host_copy_from(void *host, const void *device, size_t size);

/* W(name): by falling preference; what the CPU can do decides, once. host_copy_to() and _from() take
 * the first that is usable. */
#if defined(__x86_64__)
#define HOST_COPY_WAYS(W) W(avx512) W(avx2) W(sse41) W(words)
#elif defined(__aarch64__)
#define HOST_COPY_WAYS(W) W(pairs) W(words)
#else
#define HOST_COPY_WAYS(W) W(words)
#endif

struct host_copy_way {
	const char *name;
	bool (*usable)(void);
	void (*to)(char *device, const char *host, size_t size);
	void (*from)(char *host, const char *device, size_t size);
};

/* In that order; the last has no name. */
extern const struct host_copy_way host_copy_ways[];
const struct host_copy_way *host_copy_best(void);

#endif
