/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOCK_H
#define GPUSHARE_REGISTRY_CLOCK_H
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* For durations and deadlines. */
static inline int64_t clock_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* For timestamps that leave this process. */
static inline uint64_t clock_unix_ns(void)
{
	return (uint64_t)clock_read_ns(CLOCK_REALTIME);
}

static inline int64_t clock_sooner(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/* Milliseconds until then, as poll()'s timeout: rounded up, so that poll() doesn't return early;
 * one hour at most; -1: never. */
static inline int clock_timeout_ms(int64_t then_ns)
{
	int64_t left_ms;

	if (then_ns == INT64_MAX)
		return -1;
	left_ms = (then_ns - clock_ns() + NS_PER_MS - 1) / NS_PER_MS;
	return left_ms < 0 ? 0 : left_ms > 3600 * 1000 ? 3600 * 1000 : (int)left_ms;
}

/* Long work under the registry's lock is done in pieces of PIECE_NS, so that no piece holds the
 * lock for a millisecond. Between two pieces, the lock is free for PIECE_NS. */
#define PIECE_NS (NS_PER_MS / 2) /* half a millisecond: finishing a piece takes time, too */

struct piece {
	int64_t until_ns;
	bool begun;
};

static inline struct piece piece_begin(void)
{
	return (struct piece){.until_ns = clock_ns() + PIECE_NS};
}

/* Call this before each step. It is false before the first step, so each piece makes progress. */
static inline bool piece_is_over(struct piece *piece)
{
	bool over = piece->begun && clock_ns() >= piece->until_ns;

	piece->begun = true;
	return over;
}

#endif
