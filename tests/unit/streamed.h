/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_STREAMED_H
#define GPUSHARE_TESTS_UNIT_STREAMED_H
/* Named stream-ordered memory in a preloaded program of the test's, beside preloaded.h. */
#include "preloaded.h"

struct streamed {
	const struct driver *driver;
	struct driver *table;
	cu_stream stream; /* what the calls below are about */
};

extern struct streamed streamed;

/* A named block in that stream. */
cu_deviceptr streamed_make_here(void);
/* In a stream of its own, which is streamed.stream then. */
cu_deviceptr streamed_make(void);
/* The same of a program that has just been preloaded. */
cu_deviceptr streamed_begin(void);
cu_result streamed_free(cu_deviceptr pointer);
/* Whether its memory is given back once all streams are done. */
bool streamed_is_gone(cu_deviceptr pointer);
/* The stream stands until the word that this gives is set to 1. */
uint32_t *streamed_hold_up(void);
void streamed_let_go(uint32_t *word);

#endif
