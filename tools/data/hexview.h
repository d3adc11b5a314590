/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_HEXVIEW_H
#define GPUSHARE_TOOLS_HEXVIEW_H
/* Format bytes as hexdump -C does. */
#include <stddef.h>
#include <stdint.h>

#define HEXVIEW_LINE 16 /* bytes per line */
#define HEXVIEW_TEXT 96 /* room for a line with a 64-bit offset, NUL included */

/* Format one line without a newline: `size` bytes (1 to 16), the first of them at `offset`. */
void hexview_line(const unsigned char *data, size_t size, uint64_t offset, char out[HEXVIEW_TEXT]);

#endif
