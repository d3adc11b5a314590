/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_STREAM_H
#define GPUSHARE_TESTS_SIM_DRIVER_STREAM_H
/* Declarations shared by the files for ordered work: streams, events, waits, pools and captures. */
#include "driver_sim.h"

/* CUresult values that cuda_abi.h does not name */
enum {
	STREAM_ILLEGAL_STATE = 401,
	STREAM_CAPTURE_ISOLATION = 905,
	STREAM_CAPTURE_IMPLICIT = 906,
	STREAM_CAPTURED_EVENT = 907,
	STREAM_CAPTURE_WRONG_THREAD = 908,
};

#define STREAM_LEGACY ((cu_stream)(uintptr_t)1)
#define STREAM_PER_THREAD ((cu_stream)(uintptr_t)2)

struct cu_stream_opaque {
	struct cu_stream_opaque *next;
	cu_context context; /* NULL: a default stream, which every context can use */
	bool blocking;	    /* ordered with the legacy stream */
	bool own;	    /* a thread's default stream */
	unsigned long long id;
	struct wait *last;	 /* newest queued work, which later work comes after; NULL: none */
	struct capture *capture; /* capture in progress; NULL: none */
};

#pragma GCC visibility push(hidden)
/* driver_wait.c: waits for words in memory, and the work queued behind them. Under the lock, except
 * wait_for() and wait_for_all(). */
struct wait *wait_new(struct wait *first, struct wait *second, uint64_t address, uint32_t value);
/* Wait for a counter instead of a word. The counter must only grow, and its memory must stay
 * mapped. */
struct wait *wait_new_counter(struct wait *first, const _Atomic uint64_t *counter, uint64_t number);
/* Queue an operation behind `first`. wait_look() runs it once `first` is over, unless it is
 * OP_CALL. The wait frees op->bytes. */
struct op;
struct wait *wait_new_op(struct wait *first, const struct op *op);
/* Take a host function that is due, and copy its operation to *out_op. The caller calls the
 * function, then wait_done(). NULL: none is due. */
struct wait *wait_take_call(struct op *out_op);
void wait_done(struct wait *wait);
bool wait_has_work(void); /* an operation or a host function is pending */
struct wait *wait_hold(struct wait *wait);
void wait_drop(struct wait *wait);
bool wait_over(const struct wait *wait); /* NULL is over */
void wait_look(void);
void wait_for(struct wait *wait); /* and drop the reference */
void wait_for_all(void);

/* driver_stream.c. Under the lock. */
cu_stream stream_find(cu_stream stream); /* NULL: no such stream */
struct wait *stream_tail(cu_stream stream);
bool stream_captures(cu_stream except); /* a blocking stream is being captured */
/* Call before an event, a wait for one, or stream-ordered memory uses the stream. */
cu_result stream_use(cu_stream stream);
void stream_end(cu_context context);

/* driver_pool.c and driver_pools.c. Under the lock, except pool_synchronize() and pool_synced(). */
bool pool_has_freed(const struct region *region); /* pool memory whose cuMemFreeAsync is queued */
void pool_look(void);
/* Without the lock, after a synchronization's waits. It never returns if memory of cuMemAlloc was
 * freed twice in that stream; NULL: in any stream. */
void pool_synchronize(cu_stream stream);
uint64_t pool_held_up(cu_mem_pool pool); /* bytes whose free is queued behind a wait */
void pool_synced(void); /* takes the lock: pools give back freed memory down to their threshold */
/* The stream ends: memory of cuMemAlloc that was freed in it is never released. */
void pool_keep_of(cu_stream stream);

/* driver_event.c. Under the lock. */
void event_end(cu_context context);

/* driver_capture.c */
cu_result capture_permits(void);
cu_result capture_conflict(cu_context context);
cu_result capture_spoil(cu_stream stream);
cu_result capture_cross(struct capture *capture);
cu_result capture_alloc(struct capture *capture, cu_deviceptr *pointer, uint64_t size);
cu_result capture_free(struct capture *capture, cu_deviceptr pointer);
void capture_discard(struct capture *capture);
#pragma GCC visibility pop

#endif
