/* SPDX-License-Identifier: MIT */
#include "edits.h"

#include <string.h>

#include "protocol.h"

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int less = a < b ? a : b;

	return less < c ? less : c;
}

/* Wagner and Fischer's table, a row at a time: row[j] is the distance of what was seen of `a` and the first
 * j bytes of `b`. */
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
