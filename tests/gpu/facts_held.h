/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_FACTS_HELD_H
#define TESTS_GPU_FACTS_HELD_H
/* Questions beside streams that are held up, in a process that goes past what would wait for them, and has let
 * them go by then. To make a context may take seconds: as many questions a process as can be. */
#include "facts.h"

/* Before facts_start() in the calling process. */
void held_probe(void (*run)(int user), int user);

/* In such a process: the driver, and the word that is to let all go. Its time counts from here on. */
void held_start(void);
cu_stream held_stream(void); /* a new one, which waits for nothing */
void held_up(cu_stream stream);
/* A new one that waits for what `stream` has so far. */
cu_stream held_behind(cu_stream stream);
void held_let_go(void);
void held_again(void);		      /* from here on, once all that was let go is done */
void held_let_go_in(unsigned int ms); /* by another thread */

/* Where a call may never return: says so after a second, and ends the process. */
void held_ask(const char *question, cu_result (*call)(void));

#endif
