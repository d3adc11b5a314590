/* SPDX-License-Identifier: MIT */
/* Proof 1 of 2: our types and values have the toolkit's sizes, offsets, alignments and values. */
#include <cuda.h>

#include "cuda_abi.h"

#define T(ours, theirs, is) \
	_Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), \
		       #theirs);
CUDA_ABI_SCALARS(T)
#undef T
#define T(ours, theirs) \
	_Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), \
		       #theirs);
CUDA_ABI_STRUCTS(T)
#undef T
#define F(ours, theirs, field) \
	_Static_assert(offsetof(ours, field) == offsetof(theirs, field), #theirs "." #field); \
	_Static_assert(sizeof((ours){0}.field) == sizeof((theirs){0}.field), #theirs "." #field);
CUDA_ABI_FIELDS(F)
#undef F
#define V(ours, theirs, value) _Static_assert((int)(ours) == (int)(theirs), #theirs);
CUDA_ABI_RESULTS(V)
CUDA_ABI_VALUES(V)
#undef V
_Static_assert(CUDA_ABI_IPC_HANDLE_SIZE == CU_IPC_HANDLE_SIZE, "CU_IPC_HANDLE_SIZE");
