/* SPDX-License-Identifier: MIT */
#include "monotonic.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "elf.h"

#ifdef __aarch64__
#define VDSO_CLOCK "__kernel_clock_gettime"
#else
#define VDSO_CLOCK "__vdso_clock_gettime"
#endif

typedef int clock_call(clockid_t clock, struct timespec *out_now);

static int call_kernel(clockid_t clock, struct timespec *out_now)
{
	return (int)syscall(SYS_clock_gettime, clock, out_now);
}

struct timespec monotonic_now(void)
{
	static _Atomic(clock_call *) known;
	clock_call *call = atomic_load_explicit(&known, memory_order_relaxed);
	struct timespec now = {0, 0};

	if (!call) {
		call = elf_find_vdso(VDSO_CLOCK);
		if (!call)
			call = call_kernel;
		atomic_store_explicit(&known, call, memory_order_relaxed);
	}
	if (call(CLOCK_MONOTONIC, &now))
		call_kernel(CLOCK_MONOTONIC, &now);
	return now;
}
