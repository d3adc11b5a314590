/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_CALLS_H
#define TESTS_BENCH_CALLS_H
/* The measured calls: kinds of allocation with their free, and how a program finds them. */
#include <stddef.h>
#include <stdint.h>

#define CALLS_SIZE (2UL << 20) /* bytes of every allocation */

/* Both return an error of the driver or runtime, 0 for none. */
struct calls {
	const char *name; /* of the allocation, as a program writes it */
	int (*alloc)(uint64_t *out_pointer);
	int (*release)(uint64_t pointer);
};

/*
 * way_*.c: return the calls, found in one way and ended by a NULL name. The first kind can be
 * shared by name. NULL: the calls were not found.
 */
const struct calls *way_find(void);

/*
 * steps.c: print how many instructions a pair of each kind takes while another buffer exists. If
 * `unloaded` is not NULL, also print the instructions of ten pairs of the first kind after that
 * library was unloaded. Return 0, or 1 on failure.
 */
int calls_step(const struct calls *calls, const char *unloaded);

#endif
