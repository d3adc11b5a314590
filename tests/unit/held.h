/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_HELD_H
#define GPUSHARE_TESTS_HELD_H
/* In parts: streams of the current context whose work waits until it is let go. */
#include "stage.h"

/* Made on the first call; the same then. */
cu_stream held_stream(void);
/* It stands from here on until held_let_go(). */
void held_stop(void);
void held_let_go(void);

#endif
