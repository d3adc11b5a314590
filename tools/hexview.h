/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_HEXVIEW_H
#define GPUSHARE_TOOLS_HEXVIEW_H
/* Bytes for people, as hexdump -C shows them. */
#include <stddef.h>
#include <stdint.h>

#define HEXVIEW_LINE 16 /* bytes of a line */
#define HEXVIEW_TEXT 96 /* room for its text with a 64-bit offset, NUL included */

/* One line without a newline: `size` of 1..16 bytes whose first is at `offset`. */
void hexview_line(const unsigned char *data, size_t size, uint64_t offset, char out[HEXVIEW_TEXT]);

#endif
