/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_SIM_H
#define GPUSHARE_TESTS_SIM_DRIVER_SIM_H
/*
 * Shared declarations of the simulated driver's files. Each file covers one kind of object. Each
 * exported call is declared here from the ABI header's list, so a wrong prototype does not compile.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/cuda_abi.h"

#define SIM_API __attribute__((visibility("default")))
#define SIM_BLOCK ((uint64_t)2 << 20) /* bytes: unit of a mapping */
#define SIM_STEP ((uint64_t)512)      /* bytes: unit of an allocation */
#define SIM_CONTROL ((uint64_t)4096)  /* bytes behind a memfd's data, for struct control */
#define SIM_DEVICES_MAX 64
#ifndef SIM_CUDA /* CUDA version of the simulated driver */
#define SIM_CUDA 13000
#endif

/* The 32-bit calls of CUDA 3.1 and before, and other calls that a _v2 call has replaced under the
 * same bare name. A hook must not confuse them with their successors. F as in CUDA_ABI_CALLS. */
#define SIM_V1_CALLS(F) \
	F(2000, 2000, cuDeviceTotalMem, (unsigned int *bytes, cu_device device)) \
	F(9020, 9020, cuDeviceGetUuid, (cu_uuid * uuid, cu_device device)) \
	F(2000, 2000, cuCtxPushCurrent, (cu_context context)) \
	F(2000, 2000, cuCtxPopCurrent, (cu_context * context)) \
	F(2000, 2000, cuMemGetInfo, (unsigned int *free, unsigned int *total)) \
	F(2000, 2000, cuMemAlloc, (unsigned int *pointer, unsigned int size)) \
	F(2000, 2000, cuMemAllocPitch, \
	  (unsigned int *pointer, unsigned int *pitch, unsigned int width, unsigned int height, \
	   unsigned int element)) \
	F(2000, 2000, cuMemFree, (unsigned int pointer)) \
	F(2000, 2000, cuMemGetAddressRange, \
	  (unsigned int *base, unsigned int *size, unsigned int pointer)) \
	F(4000, 4000, cuMemHostRegister, (void *pointer, size_t size, unsigned int flags)) \
	F(2000, 2000, cuMemcpyHtoD, (unsigned int to, const void *from, unsigned int size)) \
	F(2000, 2000, cuMemcpyDtoH, (void *to, unsigned int from, unsigned int size)) \
	F(2000, 2000, cuMemcpyDtoD, (unsigned int to, unsigned int from, unsigned int size)) \
	F(2000, 2000, cuMemsetD8, (unsigned int to, unsigned char value, unsigned int count)) \
	F(2000, 2000, cuMemsetD32, (unsigned int to, unsigned int value, unsigned int count)) \
	F(2000, 2000, cuStreamDestroy, (cu_stream stream)) \
	F(2000, 2000, cuEventDestroy, (cu_event event))

typedef struct cu_graph_exec_opaque *cu_graph_exec;

/* Calls that programs make but gpushare does not. F as in CUDA_ABI_CALLS. */
#define SIM_OTHER_CALLS(F) \
	F(11040, 11040, cuGraphInstantiateWithFlags, \
	  (cu_graph_exec * exec, cu_graph graph, unsigned long long flags)) \
	F(10000, 10000, cuGraphLaunch, (cu_graph_exec exec, cu_stream stream)) \
	F(10000, 10000, cuGraphExecDestroy, (cu_graph_exec exec))

#define SIM_CALLS(F) CUDA_ABI_CALLS(F) SIM_V1_CALLS(F) SIM_OTHER_CALLS(F)

/* P(symbol, suffix): calls with a twin for the per-thread default stream. These calls take no
 * stream and run at once, so their twin is a jump to the plain call. */
#define SIM_JUMPING_TWINS(P) \
	P(cuMemcpyHtoD_v2, _ptds) \
	P(cuMemcpyDtoH_v2, _ptds) \
	P(cuMemcpyDtoD_v2, _ptds) \
	P(cuMemcpy, _ptds) \
	P(cuMemsetD8_v2, _ptds) \
	P(cuMemsetD32_v2, _ptds)

/* To the twins of these calls, stream 0 is the calling thread's default stream. */
#define SIM_STREAM_TWINS(P) \
	P(cuMemAllocAsync, _ptsz) \
	P(cuMemAllocFromPoolAsync, _ptsz) \
	P(cuMemFreeAsync, _ptsz) \
	P(cuMemPrefetchAsync, _ptsz) \
	P(cuMemPrefetchAsync_v2, _ptsz) \
	P(cuStreamAttachMemAsync, _ptsz) \
	P(cuMemcpyHtoDAsync_v2, _ptsz) \
	P(cuMemcpyDtoHAsync_v2, _ptsz) \
	P(cuMemcpyAsync, _ptsz) \
	P(cuStreamSynchronize, _ptsz) \
	P(cuStreamGetCtx, _ptsz) \
	P(cuStreamWaitEvent, _ptsz) \
	P(cuStreamWaitValue32_v2, _ptsz) \
	P(cuStreamWaitValue64_v2, _ptsz) \
	P(cuStreamWriteValue64_v2, _ptsz) \
	P(cuLaunchHostFunc, _ptsz) \
	P(cuStreamGetId, _ptsz) \
	P(cuGraphLaunch, _ptsz) \
	P(cuStreamIsCapturing, _ptsz) \
	P(cuStreamBeginCapture_v2, _ptsz) \
	P(cuStreamEndCapture, _ptsz) \
	P(cuEventRecord, _ptsz)

#define SIM_PER_THREAD(P) SIM_JUMPING_TWINS(P) SIM_STREAM_TWINS(P)

#define F(since, version, name, params) typedef cu_result cu_##name##_call params;
SIM_V1_CALLS(F)
SIM_OTHER_CALLS(F)
#undef F
#define F(since, version, name, params) SIM_API cu_##name##_call name;
SIM_CALLS(F)
#undef F
#define P(name, suffix) SIM_API cu_##name##_call name##suffix;
SIM_PER_THREAD(P)
#undef P

/* The declarations below are hidden, whatever -fvisibility says. */
#pragma GCC visibility push(hidden)

enum call {
#define F(since, version, name, params) CALL_##name,
	SIM_CALLS(F)
#undef F
	    CALL_COUNT
};

enum need {
	NEED_NOTHING,
	NEED_INIT,
	NEED_CONTEXT,
	NEED_NO_CAPTURE, /* a context, and no stream capture that forbids unsafe calls */
	/* As NEED_NO_CAPTURE, but a thread may have no context; only a destroyed one is refused. */
	NEED_NO_DEAD,
};

/* driver_faults.c: the checks at the entry of every call, and the log at its exit. `caller` is the
 * call's return address. */
cu_result faults_enter(enum call call, enum need need, const void *caller);
cu_result faults_leave(enum call call, cu_result result, uint64_t pointer, uint64_t size);
bool faults_parse(void);
bool faults_lacks(const char *symbol, size_t bare_length);

/* Body of an exported call: return the injected fault or the refusal of faults_enter(), else
 * `expression`. ANSWER_LOGGED is for calls of the allocator and of IPC: it also logs a pointer and
 * a size. */
#define ANSWER(name, need, expression) \
	do { \
		cu_result answer_ = faults_enter(CALL_##name, need, __builtin_return_address(0)); \
		return answer_ != CU_OK ? answer_ : (expression); \
	} while (0)
#define ANSWER_LOGGED(name, need, expression, pointer, size) \
	do { \
		cu_result answer_ = faults_enter(CALL_##name, need, __builtin_return_address(0)); \
		if (answer_ == CU_OK) \
			answer_ = (expression); \
		return faults_leave(CALL_##name, answer_, pointer, size); \
	} while (0)

/* An exported call: ANSWER or ANSWER_LOGGED with the function body that follows. `arguments` names
 * the `parameters`. */
#define CALL(name, need, parameters, arguments) \
	static cu_result name##_answer parameters; \
	cu_result name parameters \
	{ \
		ANSWER(name, need, name##_answer arguments); \
	} \
	static cu_result name##_answer parameters
#define CALL_LOGGED(name, need, parameters, arguments, pointer, size) \
	static cu_result name##_answer parameters; \
	cu_result name parameters \
	{ \
		ANSWER_LOGGED(name, need, name##_answer arguments, pointer, size); \
	} \
	static cu_result name##_answer parameters

/* driver_state.c: state of the process: settings, initialisation, fork, and the only lock. */
struct state {
	bool settings_good;
	atomic_bool initialised;
	bool forked;	  /* forked after cuInit: cuInit and all calls that need it fail */
	int slot;	  /* address slot of the process; -1: chosen by pid */
	int device_count; /* visible devices */
	int host_numa;	  /* 1: cuMemCreate accepts host NUMA node 0; 0: no node */
	int physical[SIM_DEVICES_MAX];	/* ordinal -> number of the device in the machine */
	int connections;		/* queues that streams share; 0: one queue per stream */
	int stream_words;		/* 1: streams can write 64-bit words and wait for them */
	int peers;			/* 1: devices can access each other's memory */
	int copies;			/* 0: copies move no bytes */
	int populate;			/* mapped memory has its pages at once */
	uint64_t capacity;		/* bytes per device; each process counts only its own use */
	uint64_t used[SIM_DEVICES_MAX]; /* bytes by ordinal; under the lock */
	pthread_mutex_t lock;
};
extern struct state state;
void state_once(void);
/* Cancellation is disabled while a thread holds the lock: a cancelled holder would block all other
 * threads. */
int state_lock(void); /* returns the cancel state for state_unlock() */
void state_unlock(const int *cancelling);
#define STATE_LOCKED int state_locked_ __attribute__((cleanup(state_unlock), unused)) = state_lock()
void state_uuid(int physical, cu_uuid *uuid);
bool state_device_good(cu_device device);
int state_ordinal(int physical); /* -1: not visible here */
bool state_reaches(cu_device device, int physical);

#define SIM_ADDRESS_SLOTS 2048

/* driver_context.c: contexts that programs create, and each thread's stack of current contexts. */
struct cu_context_opaque {
	cu_context next;
	cu_device device;
	bool active;		 /* not destroyed; if primary: retained, not reset since */
	unsigned int references; /* of a primary context */
};
cu_context context_current(void);
cu_result context_check(void);
cu_device context_device(void);
void context_end(cu_context context);

/* driver_primary.c */
cu_context primary_of(cu_device device);
bool primary_is(cu_context context);

/* driver_region.c: all address ranges that the driver knows, ordered. Under the lock. */
enum region_kind {
	REGION_DEVICE,	   /* cuMemAlloc */
	REGION_IMPORT,	   /* cuIpcOpenMemHandle */
	REGION_ASYNC,	   /* cuMemAllocAsync */
	REGION_MANAGED,	   /* cuMemAllocManaged */
	REGION_HOST,	   /* cuMemHostAlloc */
	REGION_REGISTERED, /* cuMemHostRegister */
	REGION_MAPPED,	   /* cuMemMap */
};
struct region {
	uint64_t start;
	uint64_t size; /* bytes, as requested */
	enum region_kind kind;
	cu_device device;
	cu_context context; /* the region ends with it; NULL: with none, as pool memory */
	cu_mem_pool pool;   /* REGION_ASYNC */
	int access;	    /* CU_ACCESS_*; 0: none */
	int cpu_access;	    /* CU_ACCESS_* of the CPU, for a mapping of host memory */
	uint8_t seen[SIM_DEVICES_MAX]; /* CU_ACCESS_* of each device, for a mapping */
	void *owner;		       /* block, import or object, by kind */
	uint32_t generation;	       /* differs from other allocations at the same address */
	unsigned int references;       /* REGION_IMPORT: number of opens */
	struct region *prev, *next;
};
struct region *region_add(const struct region *model);
void region_remove(struct region *region);
struct region *region_find(uint64_t address);  /* the region that contains it; NULL: none */
struct region *region_exactly(uint64_t start); /* the region that starts there; NULL: none */
bool region_overlaps(uint64_t start, uint64_t size);
bool region_covers(uint64_t start, uint64_t size, int access);
struct region *region_first_of(cu_context context);

/* driver_address.c: choice of addresses; each process has its own range. */
void *address_reserve(uint64_t size, uint64_t alignment, uint64_t want);
void *address_reserve_pooled(uint64_t size);
bool address_is_ours(uint64_t address);
void address_again(void);
int address_memfd(uint64_t size);
uint64_t address_nonce(void);

/* driver_block.c: memfds of 2 MiB multiples, divided in 512-byte steps. Under the lock. */
struct control { /* behind the data of a block's or object's memfd: identifies it to an importer */
	uint64_t magic;
	uint64_t nonce;
	uint64_t size;
	int32_t physical;
	uint32_t unused;
};
#define CONTROL_BLOCK UINT64_C(0x67707573626c6f63)
#define CONTROL_OBJECT UINT64_C(0x677075736f626a65)
struct memory_want {
	enum region_kind kind;
	cu_device device;
	cu_mem_pool pool;
};
struct block {
	struct block *next;
	uint64_t base, size;
	int fd;
	cu_device device;
	struct control *control;
	uint64_t used; /* bytes allocated */
	bool exported; /* an importer may have it mapped: destroyed once empty */
	bool pooled;   /* kind of allocations that it serves */
	struct span *free;
};
struct block *block_take(const struct memory_want *want, uint64_t size, uint64_t *offset);
void block_give(struct block *block, uint64_t offset, uint64_t size);
uint64_t block_cached(cu_device device);
void block_empty_cache(cu_device device);
bool block_account(cu_device device, uint64_t size);

/* driver_memory.c, driver_host.c, driver_ipc.c, driver_pointer.c, driver_pools.c: calls from other
 * files */
cu_result memory_take(cu_deviceptr *pointer, uint64_t size, const struct memory_want *want);
void memory_release(struct region *region);
cu_result memory_free(cu_deviceptr pointer);
cu_result host_free(struct region *region);
void ipc_release(struct region *region);
uint64_t pool_handle_types(const struct region *region);
bool pool_reaches(const struct region *region, cu_device device);
cu_mem_pool pool_standard(cu_device device);
cu_device pool_place(cu_mem_pool pool); /* device of the pool; -1: no such pool */
void pool_took(cu_mem_pool pool, uint64_t size);
void pool_gave(const struct region *region); /* count a free by cuMemFreeAsync */
void pool_lost(const struct region *region); /* count a free by cuMemFree */

#pragma GCC visibility pop
#endif
