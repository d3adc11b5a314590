/* SPDX-License-Identifier: MIT */
/* Valid names, control characters, sizes in bytes, and the edit distance of two words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

/* Not isalnum(), because the locale must not decide which names are valid. */
static bool is_name_byte(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '/' || c == '-';
}

const char *name_fault(const char *name)
{
	size_t length = 0;

	if (!name || !*name)
		return "a name has at least one byte";
	if (*name == '-') /* programs would take the name for an option */
		return "a name does not begin with '-'";
	for (; name[length]; length++) {
		if (length == GPUSHARE_NAME_MAX)
			return "a name has at most 255 bytes";
		if (!is_name_byte(name[length]))
			return "a name is 1 to 255 bytes of A-Z a-z 0-9 . _ / -";
	}
	return NULL;
}

bool name_is_valid(const char *name)
{
	return !name_fault(name);
}

_Static_assert(GPUSHARE_NAME_MAX == 255, "name_fault() says 255");
_Static_assert(sizeof(((record *)0)->name) == GPUSHARE_NAME_MAX + 1, "registry.options differs");

bool name_is_number(const char *group)
{
	return *group >= '0' && *group <= '9';
}

/* The size in bytes of the UTF-8 character at `text`; 1 if it is malformed, e.g. overlong. */
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

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int less = a < b ? a : b;

	return less < c ? less : c;
}

/* Wagner and Fischer's table, one row at a time: row[j] is the distance between the bytes of `a` so
 * far and the first j bytes of `b`. */
unsigned int edit_distance(const char *a, const char *b, unsigned int most)
{
	unsigned int row[GPUSHARE_NAME_MAX + 1];
	size_t length = strlen(b);

	if (strlen(a) > GPUSHARE_NAME_MAX || length > GPUSHARE_NAME_MAX)
		return most + 1;
	for (unsigned int j = 0; j <= length; j++)
		row[j] = j;
	for (; *a; a++) {
		unsigned int above_left = row[0]++;

		for (size_t j = 1; j <= length; j++) {
			unsigned int above = row[j];

			row[j] = least(above + 1, row[j - 1] + 1, above_left + (*a != b[j - 1]));
			above_left = above;
		}
	}
	return row[length] <= most ? row[length] : most + 1;
}

const char *text_size(const char *text, uint64_t *out_size)
{
	static const char units[] = "KMGT";
	const char *unit;
	uint64_t size, step = 1000;
	char *end;

	if (*text < '0' || *text > '9')
		return NULL;
	errno = 0;
	size = strtoull(text, &end, 10);
	if (errno)
		return NULL;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit && *++end == 'i') {
		step = 1024;
		end++;
	}
	for (; unit && unit >= units; unit--)
		if (__builtin_mul_overflow(size, step, &size))
			return NULL;
	*out_size = size;
	return end;
}
