/* SPDX-License-Identifier: MIT */
#include "vmm_range.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/random.h>

/*
 * 24 TiB of a 47-bit or larger address space, on x86-64 and aarch64 alike. Below it lie the shadows
 * of the sanitizers (TSan's ends at 0x340000000000), ZGC's and Go's heaps and what the CUDA driver
 * reserves at start-up. Above it lie PIE programs, libraries, heaps and stacks. If a CPU's or a
 * GPU's addresses are shorter, the driver gives another address.
 */
#define RANGE_FIRST UINT64_C(0x380000000000)
#define RANGE_SIZE UINT64_C(0x180000000000)
#define STEP_LARGE ((uint64_t)512 << 20) /* the largest page of a GPU */

static atomic_bool useless;

void range_give_up(void)
{
	atomic_store_explicit(&useless, true, memory_order_relaxed);
}

uint64_t range_pick(uint64_t size)
{
	uint64_t step = size < STEP_LARGE ? RANGE_ALIGNMENT : STEP_LARGE, random;
	int error = errno;

	if (size > RANGE_SIZE / 2 || atomic_load_explicit(&useless, memory_order_relaxed))
		return 0;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random)) {
		errno = error;
		return 0;
	}
	return RANGE_FIRST + random % ((RANGE_SIZE - size) / step + 1) * step;
}
