/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_STREAM_H
#define GPUSHARE_TESTS_SIM_DRIVER_STREAM_H
/* Between the files of what has an order: streams, events, waits and captures. */
#include "driver_sim.h"

/* CUresult numbers that nothing of ours names */
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
	cu_context context; /* NULL: of a default stream, which any context has */
	bool blocking;	    /* in one order with the legacy stream */
	bool own;	    /* a thread's default stream */
	unsigned long long id;
	struct wait *last;	 /* what its newest work comes after; NULL: nothing is left to do */
	struct capture *capture; /* under way on this stream */
};

#pragma GCC visibility push(hidden)
/* driver_wait.c: words in memory that a stream waits for. Under the lock but for the _for calls. */
struct wait *wait_new(struct wait *first, struct wait *second, uint64_t address, uint32_t value);
/* And for a counter that only grows, and stays where it is. */
struct wait *wait_new_counter(struct wait *first, const _Atomic uint64_t *counter, uint64_t number);
/* And for an op, which is done by whoever looks when its turn has come; its bytes go with it. */
struct op;
struct wait *wait_new_op(struct wait *first, const struct op *op);
/* A host function whose turn it is: to be called, then said to be done. NULL: none. */
struct wait *wait_take_call(struct op *out_op);
void wait_done(struct wait *wait);
bool wait_has_work(void); /* an op is left to be done */
struct wait *wait_hold(struct wait *wait);
void wait_drop(struct wait *wait);
bool wait_over(const struct wait *wait); /* NULL is over */
void wait_look(void);
void wait_for(struct wait *wait); /* and drop it */
void wait_for_all(void);

/* driver_stream.c. Under the lock. */
cu_stream stream_find(cu_stream stream); /* NULL: there is none such */
struct wait *stream_tail(cu_stream stream);
bool stream_captures(cu_stream except); /* a blocking one is being captured */
cu_result stream_use(cu_stream stream); /* for events, waits and stream-ordered memory */
void stream_end(cu_context context);

/* driver_pool.c. Under the lock. */
bool pool_has_freed(const struct region *region); /* a pool's, there still for its stream's sake */
void pool_look(void);
/* Not under the lock, behind what is waited for: it never returns where memory of cuMemAlloc was freed twice in
 * that stream; NULL: in any. */
void pool_synchronize(cu_stream stream);
uint64_t pool_held_up(cu_mem_pool pool); /* bytes of it, freed behind a stream that is */
void pool_synced(void); /* what its frees have left is given back, but for the threshold */
void pool_keep_of(cu_stream stream); /* it ends: memory of cuMemAlloc freed in it stays */

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
