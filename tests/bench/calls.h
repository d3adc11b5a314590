/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_CALLS_H
#define TESTS_BENCH_CALLS_H
/* What is measured: kinds of allocation with their free, and the way a program came by them. */
#include <stddef.h>
#include <stdint.h>

#define CALLS_SIZE (2UL << 20) /* bytes of every allocation */

/* Both return a driver's or runtime's error, 0 for none. */
struct calls {
	const char *name; /* of the allocation, as a program writes it */
	int (*alloc)(uint64_t *out_pointer);
	int (*release)(uint64_t pointer);
};

/* way_*.c: the calls found one way, ended by a NULL name; the first can be named. NULL: none. */
const struct calls *way_find(void);

/* steps.c: says how many instructions a pair of each kind takes, once another buffer is there; and ten
 * pairs of the first kind, altogether, once the library `unloaded` (may be NULL) has gone. 0, or 1: it
 * failed. */
int calls_step(const struct calls *calls, const char *unloaded);

#endif
