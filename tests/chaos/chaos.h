/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_CHAOS_H
#define TESTS_CHAOS_CHAOS_H
/*
 * The interface between the killer and its workers: a page for each worker, and the gates that it
 * passes. A worker does one step behind each gate, then asks for the next gate.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* X(gate, an owner's step behind it, an attacher's step) */
#define CHAOS_GATES(X) \
	X(START, "starts", "starts") \
	X(CALL, "shares", "attaches") \
	X(WRITE, "writes", "reads first") \
	X(BUSY, "waits", "copies") \
	X(END, "frees", "detaches") \
	X(ENDED, "leaves", "leaves")

enum chaos_gate {
#define X(gate, owner, attacher) CHAOS_##gate,
	CHAOS_GATES(X)
#undef X
	    CHAOS_GATE_COUNT
};

struct chaos_page {
	_Atomic uint32_t open; /* the last gate that the worker may pass */
	/* the gate where it waits, or that it passed last: all work before that gate is done */
	_Atomic uint32_t asked;
	_Atomic uint64_t copies;
	_Atomic int64_t asked_ns[CHAOS_GATE_COUNT];
	bool publishes;
	uint32_t pace; /* factor for polling intervals: many workers poll less often */
	char trouble[240];
};

static inline int64_t chaos_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline void chaos_nap_us(long us)
{
	const struct timespec nap = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&nap, NULL);
}

/* Words that follow from the seed and their index. `size` need not be a multiple of a word. */
static inline void chaos_pattern(void *to, size_t size, uint64_t seed)
{
	unsigned char *at = to;

	for (uint64_t i = 0; size; i++) {
		uint64_t word = (seed + i) * UINT64_C(0x9e3779b97f4a7c15);
		size_t part = size < sizeof(word) ? size : sizeof(word);

		memcpy(at, &word, part);
		at += part;
		size -= part;
	}
}

static inline bool chaos_is_pattern(const void *bytes, size_t size, uint64_t seed)
{
	void *should = malloc(size);
	bool is;

	if (!should)
		return false;
	chaos_pattern(should, size, seed);
	is = !memcmp(bytes, should, size);
	free(should);
	return is;
}

#endif
