/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_HELD_H
#define GPUSHARE_TESTS_HELD_H
/* For parts of a stage: a stream of the current context whose work can be held up. */
#include "stage.h"

/* The first call creates the stream; later calls return the same one. */
cu_stream held_stream(void);
/* Later work of held_stream() waits until held_let_go(). */
void held_stop(void);
void held_let_go(void);
/* Is all work done that `stream` has been given? */
bool held_is_done(cu_stream stream);

/* A mark in memory that both parts share. held_share() makes that memory before the parts start.
 * held_begin() clears the mark, held_mark() sets it, and held_was_let_go() reads it.
 * held_let_go_seen() sets it, then calls held_let_go(). */
void held_share(void);
void held_begin(void);
void held_mark(void);
void held_let_go_seen(void);
bool held_was_let_go(void);

#endif
