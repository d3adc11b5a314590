/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_ORDER_BATCH_H
#define TESTS_GPU_ORDER_BATCH_H
/*
 * The parameters of cuStreamBatchMemOp_v2, which the library does not use. Source: CUDA Driver API,
 * CUstreamBatchMemOpParams; checked against the toolkit's cuda.h if there is one.
 */
#include <stddef.h>

#include "cuda/cuda_abi.h"

enum { BATCH_WAIT_64 = 4, BATCH_WRITE_64 = 5, BATCH_NO_BARRIER = 1 };

struct batch_op {
	unsigned int operation;
	cu_deviceptr address;
	unsigned long long value;
	unsigned int flags;
	cu_deviceptr alias;
	unsigned long long room;
};

#if __has_include(<cuda.h>)
#include <cuda.h>
_Static_assert(sizeof(struct batch_op) == sizeof(CUstreamBatchMemOpParams), "size");
#define F(ours, theirs) \
	_Static_assert(offsetof(struct batch_op, ours) == \
			       offsetof(CUstreamBatchMemOpParams, waitValue.theirs) && \
			   offsetof(struct batch_op, ours) == \
			       offsetof(CUstreamBatchMemOpParams, writeValue.theirs), \
		       #ours);
F(operation, operation)
F(address, address)
F(value, value64)
F(flags, flags)
#undef F
_Static_assert(BATCH_WAIT_64 == (int)CU_STREAM_MEM_OP_WAIT_VALUE_64, "a wait");
_Static_assert(BATCH_WRITE_64 == (int)CU_STREAM_MEM_OP_WRITE_VALUE_64, "a write");
_Static_assert(BATCH_NO_BARRIER == (int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, "a flag");
#endif

#endif
