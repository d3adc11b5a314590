/* SPDX-License-Identifier: MIT */
#include "shim_when.h"

#include <stdio.h>
#include <string.h>

unsigned int when_parse(const char *text, char *error, size_t error_size)
{
	unsigned int bits = 0, bit;
	const char *at = text;
	size_t length;

	error[0] = '\0';
	if (!text || !*text)
		return 0;
	for (;; at += length + 1) {
		length = strcspn(at, ",");
		bit = 0;
#define X(name, its_bit, word) \
	if (length == strlen(word) && !strncmp(at, word, length)) \
		bit = its_bit;
		PUBLISH_WHEN(X)
#undef X
		if (!bit)
			break;
		bits |= bit;
		if (!at[length])
			return bits;
	}
	snprintf(error, error_size,
		 "gpushare: GPUSHARE_PUBLISH: wants "
#define X(name, its_bit, word) word " "
		 PUBLISH_WHEN(X)
#undef X
		     "with commas between them: %.*s>>>%.*s<<<%.100s",
		 at - text > 100 ? 100 : (int)(at - text), text, length > 100 ? 100 : (int)length,
		 at, at + length);
	return 0;
}
