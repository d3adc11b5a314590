/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_LACKING_H
#define GPUSHARE_TESTS_LACKING_H
/* In parts: the library's own table of the driver's calls, of which one is missing or fails meanwhile. */
#include "cuda/driver.h"

static inline cu_result refuse_call(void)
{
	return CU_UNKNOWN;
}

/* `instead`: NULL or refuse_call. `check` is done with it, and `table` is as it was behind that. */
#define WITH(table, entry, instead, check) \
	do { \
		struct driver *all = (struct driver *)(uintptr_t)(table); \
		cu_##entry##_call *whole = all->entry; \
		*(void **)&all->entry = (void *)(instead); \
		check; \
		all->entry = whole; \
	} while (0)

#endif
