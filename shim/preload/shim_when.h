/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_WHEN_H
#define GPUSHARE_SHIM_WHEN_H
/* GPUSHARE_PUBLISH: when the named buffers of a program that knows nothing of us are published. */
#include <stddef.h>

/* X(name, bit, word) */
#define PUBLISH_WHEN(X) X(SYNC, 1, "sync") X(FREE, 2, "free") X(EXIT, 4, "exit")

enum publish_when {
#define X(name, bit, word) PUBLISH_##name = (bit),
	PUBLISH_WHEN(X)
#undef X
};

/* Words with commas between them: their bits. NULL and "" are none; so is what does not parse, and
 * `error` has one line for stderr then, without its newline; else it is "". */
unsigned int when_parse(const char *text, char *error, size_t error_size);

#endif
