/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_EARLY_H
#define TESTS_E2E_EARLY_H
/* Result of the allocation that lib_linked_early.so makes before main(). */
#include "cuda/cuda_abi.h"

extern int early_code;
extern cu_deviceptr early_pointer;

#endif
