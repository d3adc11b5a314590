/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_CONTRACT_CAPTURE_H
#define GPUSHARE_TESTS_CONTRACT_CAPTURE_H
/* A process's one stream that is captured, and how its capture goes. After contract_context(). */
#include "contract.h"

extern cu_stream capture_stream; /* from the first capture on */

void capture_begin(int mode);
void capture_ends_well(void);
void capture_ends_invalidated(void);
/* Run `call` on a thread of its own that has the same context current. */
cu_result capture_elsewhere(cu_result (*call)(void));
/* The calling thread's mode, which was the one returned. */
int capture_exchange(int mode);

#endif
