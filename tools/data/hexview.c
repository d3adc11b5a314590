/* SPDX-License-Identifier: MIT */
#include "hexview.h"

#include <inttypes.h>
#include <stdio.h>

void hexview_line(const unsigned char *data, size_t size, uint64_t offset, char out[HEXVIEW_TEXT])
{
	/* Offsets past 32 bits take more columns, as with hexdump. */
	char *to = out + sprintf(out, "%08" PRIx64 " ", offset);

	for (size_t i = 0; i < HEXVIEW_LINE; i++) {
		if (i % 8 == 0)
			*to++ = ' ';
		to += i < size ? sprintf(to, "%02x ", data[i]) : sprintf(to, "   ");
	}
	to += sprintf(to, " |");
	for (size_t i = 0; i < size; i++)
		*to++ = data[i] >= ' ' && data[i] <= '~' ? (char)data[i] : '.';
	*to++ = '|';
	*to = '\0';
}
