/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DEFERRED_H
#define GPUSHARE_SHIM_DEFERRED_H
/*
 * Memory that was freed while other processes have it attached: held until the last of them has
 * left. The preload has one list of them, each session of the API another. Knows neither registry nor
 * driver calls but one: what is taken out is the caller's to free, without a lock held.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "gpushare.h"

#define DEFERRED_MAX 64			   /* buffers; registry.options too */
#define DEFERRED_BYTES (UINT64_C(1) << 30) /* $GPUSHARE_DEFERRED_FREE says another */
#define DEFERRED_PAUSE_MS 50		   /* between two questions to the registry */
#define DEFERRED_ALONE_MS 30000		   /* for a registry that comes after one that was killed */

struct deferred_entry {
	struct deferred_entry *next;
	uint64_t pointer; /* or a CUevent */
	uint64_t size;	  /* that the GPU holds; 0: it is an event */
	uint64_t generation;
	cu_context context;
	char name[GPUSHARE_NAME_MAX + 1]; /* that it had */
};

struct deferred {
	pthread_mutex_t lock;
	atomic_size_t count;
	uint64_t bytes;
	_Atomic(uint64_t) limit;
	int64_t asked_ms;	      /* when the registry last answered, or did not */
	int64_t looked_ms;	      /* the same of a question that waits for nobody */
	bool asking;		      /* a thread waits for the answer */
	int64_t alone_ms;	      /* since when none could be; 0: the last answered */
	struct deferred_entry *first; /* the oldest */
};

/* clang-format off */
#define DEFERRED_INITIALIZER {.lock = PTHREAD_MUTEX_INITIALIZER}
/* clang-format on */

/* What a text like $GPUSHARE_DEFERRED_FREE asks for: bytes with K M G (1000s), Ki Mi Gi (1024s); 0: none.
 * DEFERRED_BYTES for NULL, and for what does not parse. */
uint64_t deferred_parse(const char *text);

/* Is anything here? One atomic load. */
static inline bool deferred_any(const struct deferred *deferred)
{
	return atomic_load_explicit(&deferred->count, memory_order_acquire) != 0;
}

/* What it may hold, in bytes; 0: nothing. */
static inline void deferred_set_limit(struct deferred *deferred, uint64_t limit)
{
	atomic_store_explicit(&deferred->limit, limit, memory_order_relaxed);
}

/* Would a buffer of `size` bytes have room, all others gone? */
bool deferred_fits(const struct deferred *deferred, uint64_t size);

/* A copy goes in. False: out of memory. */
bool deferred_put(struct deferred *deferred, const struct deferred_entry *entry);

/* Was that freed? `base` and `size` are the driver's allocation, or a pointer and 1. */
bool deferred_holds(struct deferred *deferred, uint64_t base, uint64_t size);

/* All below take entries out, oldest first, as a list that is the caller's. */

/* What no longer fits. */
struct deferred_entry *deferred_take_over(struct deferred *deferred);
struct deferred_entry *deferred_take_all(struct deferred *deferred);
/* Of one context. deferred_return() puts a list back. */
struct deferred_entry *deferred_take_of(struct deferred *deferred, cu_context context);
void deferred_return(struct deferred *deferred, struct deferred_entry *list);

/* Which of `generations` nobody has attached any more, in their place: a status. E_NOT_READY: no registry
 * is there, and one that comes would know; E_TIMED_OUT: it may answer yet. */
typedef int deferred_ask(void *user, uint64_t generations[DEFERRED_MAX], size_t *count);
/* What nobody has attached any more; everything, if there is no registry that could tell, and none has come for
 * DEFERRED_ALONE_MS that might. Asks DEFERRED_PAUSE_MS after the last answer, one thread at a time, no lock held. */
struct deferred_entry *deferred_take_left(struct deferred *deferred, deferred_ask *ask, void *user);
/* The same, by an `ask` that waits for nobody. Neither puts off the other. */
struct deferred_entry *deferred_look(struct deferred *deferred, deferred_ask *ask, void *user);

/* Free the first of a list's structs; what comes after it. */
struct deferred_entry *deferred_next(struct deferred_entry *list);

/*
 * In place of cuMemFree of what stays: its answer and its wait for the GPU's work, by a small
 * allocation of the current context that is made and freed, under the program's own capture mode. A
 * cuCtxSynchronize would spoil captures that a cuMemFree leaves alone.
 * CU_OUT_OF_MEMORY: there was no room for it.
 */
cu_result deferred_stand_in(const struct driver *driver);

#endif
