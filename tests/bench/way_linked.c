/* SPDX-License-Identifier: MIT */
/* Linked against libcuda: the loader resolves the exported symbols. */
#include "driver_calls.h"

#define N(name, bare, version) cu_##name##_call name;
DRIVER_CALLS(N)
#undef N

const struct calls *way_find(void)
{
#define N(name, bare, version) driver.name = name;
	DRIVER_CALLS(N)
#undef N
	return driver_start();
}
