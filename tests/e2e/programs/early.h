/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_EARLY_H
#define TESTS_E2E_EARLY_H
/* What lib_linked_early.so did before main. */
#include "cuda/cuda_abi.h"

extern int early_code;
extern cu_deviceptr early_pointer;

#endif
