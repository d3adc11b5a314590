/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LIMBO_H
#define GPUSHARE_SHIM_LIMBO_H
/*
 * Memory that was freed while other processes have it attached: held until the last of them has
 * left. The preload has one limbo, each session of the API another. Knows neither registry nor
 * driver calls but one: what is taken out is the caller's to free, without a lock held.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "gpushare.h"

#define LIMBO_MAX 64			/* buffers; registry.options too */
#define LIMBO_BYTES (UINT64_C(1) << 30) /* $GPUSHARE_LIMBO says another */
#define LIMBO_PAUSE_MS 50		/* between two questions to the registry */
#define LIMBO_ALONE_MS 30000		/* for a registry that comes after one that was killed */

struct limbo_entry {
	struct limbo_entry *next;
	uint64_t pointer; /* or a CUevent */
	uint64_t size;	  /* that the GPU holds; 0: it is an event */
	uint64_t generation;
	cu_context context;
	char name[GPUSHARE_NAME_MAX + 1]; /* that it had */
};

struct limbo {
	pthread_mutex_t lock;
	atomic_size_t count;
	uint64_t bytes;
	_Atomic(uint64_t) limit;
	int64_t asked_ms;	   /* when the registry last answered, or did not */
	int64_t looked_ms;	   /* the same of a question that waits for nobody */
	bool asking;		   /* a thread waits for the answer */
	int64_t alone_ms;	   /* since when none could be; 0: the last answered */
	struct limbo_entry *first; /* the oldest */
};

/* clang-format off */
#define LIMBO_INITIALIZER {.lock = PTHREAD_MUTEX_INITIALIZER}
/* clang-format on */

/* What a text like $GPUSHARE_LIMBO asks for: bytes with K M G (1000s), Ki Mi Gi (1024s); 0: none.
 * LIMBO_BYTES for NULL, and for what does not parse. */
uint64_t limbo_parse(const char *text);

/* Is anything here? One atomic load. */
static inline bool limbo_any(const struct limbo *limbo)
{
	return atomic_load_explicit(&limbo->count, memory_order_acquire) != 0;
}

/* What it may hold, in bytes; 0: nothing. */
static inline void limbo_set_limit(struct limbo *limbo, uint64_t limit)
{
	atomic_store_explicit(&limbo->limit, limit, memory_order_relaxed);
}

/* Would a buffer of `size` bytes have room, all others gone? */
bool limbo_fits(const struct limbo *limbo, uint64_t size);

/* A copy goes in. False: out of memory. */
bool limbo_put(struct limbo *limbo, const struct limbo_entry *entry);

/* Was that freed? `base` and `size` are the driver's allocation, or a pointer and 1. */
bool limbo_holds(struct limbo *limbo, uint64_t base, uint64_t size);

/* All below take entries out, oldest first, as a list that is the caller's. */

/* What no longer fits. */
struct limbo_entry *limbo_take_over(struct limbo *limbo);
struct limbo_entry *limbo_take_all(struct limbo *limbo);
/* Of one context. limbo_return() puts a list back. */
struct limbo_entry *limbo_take_of(struct limbo *limbo, cu_context context);
void limbo_return(struct limbo *limbo, struct limbo_entry *list);

/* Which of `generations` nobody has attached any more, in their place: a status. E_NOT_READY: no registry
 * is there, and one that comes would know; E_TIMED_OUT: it may answer yet. */
typedef int limbo_ask(void *user, uint64_t generations[LIMBO_MAX], size_t *count);
/* What nobody has attached any more; everything, if there is no registry that could tell, and none has come for
 * LIMBO_ALONE_MS that might. Asks LIMBO_PAUSE_MS after the last answer, one thread at a time, no lock held. */
struct limbo_entry *limbo_take_left(struct limbo *limbo, limbo_ask *ask, void *user);
/* The same, by an `ask` that waits for nobody. Neither puts off the other. */
struct limbo_entry *limbo_look(struct limbo *limbo, limbo_ask *ask, void *user);

/* Free the first of a list's structs; what comes after it. */
struct limbo_entry *limbo_next(struct limbo_entry *list);

/*
 * In place of cuMemFree of what stays: its answer and its wait for the GPU's work, by a small
 * allocation of the current context that is made and freed, under the program's own capture mode. A
 * cuCtxSynchronize would spoil captures that a cuMemFree leaves alone.
 * CU_OUT_OF_MEMORY: there was no room for it.
 */
cu_result limbo_stand_in(const struct driver *driver);

#endif
