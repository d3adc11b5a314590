/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stddef.h>

/* How many bytes the UTF-8 character there has; 1 if it is malformed. An overlong one is malformed. */
static size_t character_size(const unsigned char *text)
{
	size_t size = *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;

	if (*text < 0xc2 || *text > 0xf4)
		return 1;
	if ((*text == 0xe0 && text[1] < 0xa0) || (*text == 0xf0 && text[1] < 0x90))
		return 1;
	for (size_t i = 1; i < size; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 1;
	}
	return size;
}

char *text_control(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		size_t size = character_size(at);

		if (size == 1 && (*at < ' ' || (*at >= 0x7f && *at < 0xa0)))
			return (char *)at;
		if (*at == 0xc2 && size == 2 && at[1] < 0xa0)
			return (char *)at;
		at += size;
	}
	return NULL;
}
