/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_STREAMED_H
#define GPUSHARE_TESTS_UNIT_STREAMED_H
/* Named stream-ordered memory for parts that use preloaded.h. */
#include "preloaded.h"

struct streamed {
	const struct driver *driver;
	struct driver *table;
	cu_stream stream; /* the stream that the functions below use */
};

extern struct streamed streamed;

/* Allocate a named block of BLOCK bytes in streamed.stream. */
cu_deviceptr streamed_make_here(void);
/* The same in a new stream, which becomes streamed.stream. */
cu_deviceptr streamed_make(void);
/* Call preloaded(), then streamed_make(). */
cu_deviceptr streamed_begin(void);
cu_result streamed_free(cu_deviceptr pointer);
/* Is the memory freed once all streams are done? */
bool streamed_is_gone(cu_deviceptr pointer);
/* Later work of the stream waits until streamed_let_go() sets the returned word to 1. */
uint32_t *streamed_hold_up(void);
void streamed_let_go(uint32_t *word);

#endif
