/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DEFERRED_H
#define GPUSHARE_SHIM_DEFERRED_H
/*
 * Memory that its owner freed while other processes had it attached: held until the last of them
 * has detached. The preload has one such list, each session of the API another. This module makes
 * no registry call, and no driver call but deferred_stand_in(). The caller frees the entries that
 * it takes out, without holding a lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "gpushare.h"

#define DEFERRED_MAX 64 /* buffers; as Deferred.generations in registry.options */
#define DEFERRED_BYTES (UINT64_C(1) << 30) /* the default; see $GPUSHARE_DEFERRED_FREE */
#define DEFERRED_PAUSE_MS 50		   /* between two requests to the registry */
#define DEFERRED_ALONE_MS 30000 /* how long to wait for the next registry after one was killed */

struct deferred_entry {
	struct deferred_entry *next;
	uint64_t pointer;    /* device pointer, or a CUevent */
	uint64_t size;	     /* bytes of GPU memory; 0: an event */
	uint64_t generation; /* the registry's number for the buffer */
	cu_context context;
	char name[GPUSHARE_NAME_MAX + 1]; /* of the freed buffer */
};

struct deferred {
	pthread_mutex_t lock;
	atomic_size_t count;
	uint64_t bytes;
	_Atomic(uint64_t) limit;
	int64_t asked_ms;  /* end of the latest deferred_take_left() request, answered or not */
	int64_t looked_ms; /* beginning of the latest deferred_look() request */
	bool asking;	   /* a thread waits for deferred_take_left()'s answer */
	int64_t alone_ms;  /* since when no registry was found; 0: the last call found one */
	struct deferred_entry *first; /* the oldest */
};

/* clang-format off */
#define DEFERRED_INITIALIZER {.lock = PTHREAD_MUTEX_INITIALIZER}
/* clang-format on */

/* Parse the text of $GPUSHARE_DEFERRED_FREE: a number of bytes, perhaps with K M G T (powers of
 * 1000) or Ki Mi Gi Ti (powers of 1024). 0: hold nothing. Returns DEFERRED_BYTES for NULL, and for
 * a text that does not parse. */
uint64_t deferred_parse(const char *text);

/* Is the list not empty? One atomic load. */
static inline bool deferred_any(const struct deferred *deferred)
{
	return atomic_load_explicit(&deferred->count, memory_order_acquire) != 0;
}

/* The most that the list may hold, in bytes; 0: nothing. */
static inline void deferred_set_limit(struct deferred *deferred, uint64_t limit)
{
	atomic_store_explicit(&deferred->limit, limit, memory_order_relaxed);
}

/* Would a buffer of `size` bytes fit into an empty list? */
bool deferred_fits(const struct deferred *deferred, uint64_t size);

/* Append a copy of *entry. False: out of memory, or the lock could not be taken. */
bool deferred_put(struct deferred *deferred, const struct deferred_entry *entry);

/* Does the list hold memory that begins in the `size` bytes from `base` on? Callers pass a whole
 * allocation of the driver, or a pointer and 1. */
bool deferred_holds(struct deferred *deferred, uint64_t base, uint64_t size);

/* All functions below take entries out, oldest first. The caller owns the returned list. */

/* The oldest entries, until the rest fits the limits. */
struct deferred_entry *deferred_take_over(struct deferred *deferred);
struct deferred_entry *deferred_take_all(struct deferred *deferred);
/* The entries of one context. deferred_return() puts a list back. */
struct deferred_entry *deferred_take_of(struct deferred *deferred, cu_context context);
void deferred_return(struct deferred *deferred, struct deferred_entry *list);

/* Reduces `generations`, in place, to those that no process has attached any more; returns a
 * status. E_NOT_READY: no registry runs, but the next one will know the buffers. E_TIMED_OUT: the
 * registry may answer later. */
typedef int deferred_ask(void *user, uint64_t generations[DEFERRED_MAX], size_t *count);
/* The entries that no process has attached any more. None if `ask` fails with E_TIMED_OUT, or has
 * failed with E_NOT_READY for less than DEFERRED_ALONE_MS. All entries if `ask` fails otherwise.
 * Only one thread at a time calls `ask`, without the lock, and only if DEFERRED_PAUSE_MS have
 * passed since the last call of `ask` returned. */
struct deferred_entry *deferred_take_left(struct deferred *deferred, deferred_ask *ask, void *user);
/* The same with an `ask` that does not wait. The two functions' pauses are independent. */
struct deferred_entry *deferred_look(struct deferred *deferred, deferred_ask *ask, void *user);

/* Free the first entry of a list; returns the rest. */
struct deferred_entry *deferred_next(struct deferred_entry *list);

/*
 * Called in place of cuMemFree for memory whose free is deferred: returns the same result, and
 * waits for the GPU's work as cuMemFree does. It allocates and frees a little memory in the current
 * context, under the thread's present capture mode. cuCtxSynchronize would invalidate stream
 * captures that cuMemFree leaves alone. CU_OUT_OF_MEMORY: there was no room for the allocation.
 */
cu_result deferred_stand_in(const struct driver *driver);

#endif
