/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_FACTS_H
#define TESTS_GPU_FACTS_H
/*
 * Questions to a real driver: each file asks some, one line an answer. A section is a process of
 * its own, so that an error which ends a context ends one section.
 */
#include <stdbool.h>
#include <stdio.h>

#include "cuda/cuda_abi.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (2 * MIB)
#define FACTS_NO_CALL (-1) /* what a call answers that this driver lacks */

enum facts_values {
	HANDLE_NONE = 0,
	HANDLE_FABRIC = 8,
	COMPRESSION_GENERIC = 1,
	DEVICE_COMPRESSION = 107,
	DEVICE_FABRIC = 128,
};

/* Calls that only these questions need. N(name, params) */
#define FACTS_CALLS(N) \
	N(cuStreamQuery, (cu_stream stream)) \
	N(cuCtxEnablePeerAccess, (cu_context peer, unsigned int flags)) \
	N(cuMemcpyPeer, \
	  (cu_deviceptr to, cu_context there, cu_deviceptr from, cu_context here, size_t size)) \
	N(cuMemsetD32Async, (cu_deviceptr to, unsigned int value, size_t count, cu_stream stream)) \
	N(cuMemGetAllocationPropertiesFromHandle, (cu_mem_prop * prop, cu_mem_handle handle))

#define N(name, params) typedef cu_result cu_##name##_call params;
FACTS_CALLS(N)
#undef N

extern struct facts_driver {
#define F(since, version, name, params) cu_##name##_call *name;
#define N(name, params) cu_##name##_call *name;
	CUDA_ABI_CALLS(F) FACTS_CALLS(N)
#undef F
#undef N
} cu;

extern cu_device facts_device;
bool facts_simulated(void);	 /* where no work takes time, but for what waits for a word */
extern cu_context facts_context; /* the primary one, current where facts_start() was called */

/* The driver, device 0 and its primary context; ends the section where that fails. */
void facts_start(void);
void facts_say(const char *question, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *facts_code(cu_result result);
/* question: the code's name */
cu_result facts_ask(const char *question, cu_result result);
void facts_must(const char *what, cu_result result);
double facts_ms(void);

/* A second process of the section: to be started before facts_start(), ended by its pipe's end. */
struct facts_peer {
	int pid, to, from;
};
void facts_peer_start(struct facts_peer *peer, void (*run)(int from, int to));
void facts_peer_end(struct facts_peer *peer);
void facts_send(int to, const void *data, size_t size);
bool facts_receive(int from, void *data, size_t size);

cu_mem_prop facts_prop(int handle_types);
/* Memory of one handle behind one address, readable and writable. */
cu_deviceptr facts_map(cu_mem_handle handle, size_t size);

/* S(name), asked by facts_<name>(): the sections, in the order in which they run */
#define FACTS_SECTIONS(S) \
	S(free_ordinary) \
	S(free_pool) \
	S(free_other) \
	S(import) \
	S(block) \
	S(pitch) \
	S(stream) \
	S(vmm_range) \
	S(vmm_export) \
	S(vmm_retain) \
	S(peers_cost) \
	S(peers_keep) \
	S(peers_copy) \
	S(peers_copy_enabled) \
	S(host_make) \
	S(host_share) \
	S(host_file) \
	S(host_managed) \
	S(create) \
	S(capture) \
	S(capture_relaxed) \
	S(capture_same_thread) \
	S(capture_stream) \
	S(context_reset) \
	S(context_release) \
	S(context_destroy) \
	S(wait_close) \
	S(wait_close_other) \
	S(wait_free) \
	S(wait_unmap) \
	S(order) \
	S(event) \
	S(event_killed) \
	S(free_twice)
#define S(name) void facts_##name(void);
FACTS_SECTIONS(S)
#undef S

#endif
