/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_CONTRACT_CAPTURE_H
#define GPUSHARE_TESTS_CONTRACT_CAPTURE_H
/* Helpers for a capture of the process's single capture stream. Call contract_context() first. */
#include "contract.h"

extern cu_stream capture_stream; /* NULL before the first capture_begin() */

void capture_begin(int mode);
void capture_ends_well(void);
void capture_ends_invalidated(void);
/* Run `call` on a new thread that has the same context current. */
cu_result capture_elsewhere(cu_result (*call)(void));
/* Set the calling thread's capture mode and return the previous one. */
int capture_exchange(int mode);

#endif
