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
/* Whatever it was given so far is done. */
bool held_is_done(cu_stream stream);

/* A mark that both parts see: shared before the parts, and taken away by held_begin();
 * held_let_go_seen() makes it and lets go. */
void held_share(void);
void held_begin(void);
void held_mark(void);
void held_let_go_seen(void);
bool held_was_let_go(void);

#endif
