/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_WHEN_H
#define GPUSHARE_SHIM_WHEN_H
/* GPUSHARE_PUBLISH: when the preload publishes the program's named buffers. */
#include <stddef.h>

/* X(name, bit, word) */
#define PUBLISH_WHEN(X) X(SYNC, 1, "sync") X(FREE, 2, "free") X(EXIT, 4, "exit")

enum publish_when {
#define X(name, bit, word) PUBLISH_##name = (bit),
	PUBLISH_WHEN(X)
#undef X
};

/* Returns the bits of the comma-separated words in `text`; 0 for NULL and "". If `text` does not
 * parse: 0, and `error` is one line for stderr without its newline; else `error` is "". */
unsigned int when_parse(const char *text, char *error, size_t error_size);

#endif
