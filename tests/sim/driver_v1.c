/* SPDX-License-Identifier: MIT */
/*
 * The 32-bit calls of CUDA 3.1 and before, and other calls that a _v2 call has replaced. Current
 * programs at most look them up, and a hook must not confuse them with their successors.
 */
#include "driver_sim.h"

#define F(since, version, name, params) \
	cu_result name params \
	{ \
		return CU_NOT_SUPPORTED; \
	}
SIM_V1_CALLS(F)
