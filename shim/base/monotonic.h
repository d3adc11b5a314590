/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MONOTONIC_H
#define GPUSHARE_SHIM_MONOTONIC_H
/*
 * CLOCK_MONOTONIC, by which the kernel measures waits, read without the C library's
 * clock_gettime(). A preloaded libfaketime fakes that function: a deadline made from it may be
 * years away.
 */
#include <stdint.h>
#include <time.h>

/* The current time, without a system call if the kernel's vDSO has the clock. errno is
 * unchanged. */
struct timespec monotonic_now(void);

/* `ms` milliseconds from now. */
static inline struct timespec monotonic_in_ms(unsigned int ms)
{
	struct timespec at = monotonic_now();

	at.tv_sec += ms / 1000;
	at.tv_nsec += ms % 1000 * 1000000L;
	if (at.tv_nsec >= 1000000000L) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000L;
	}
	return at;
}

static inline int64_t monotonic_ms(void)
{
	const struct timespec now = monotonic_now();

	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

#endif
