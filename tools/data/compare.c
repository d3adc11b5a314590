/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <string.h>

#define BLOCK ((size_t)4096) /* bytes of one memcmp(); only blocks that differ are searched */

void compare_begin(struct compare *compare, enum dtype dtype)
{
	*compare = (struct compare){.dtype = dtype};
}

static void compare_element(struct compare *compare, const unsigned char *ours,
			    const unsigned char *theirs, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (ours[i] == theirs[i])
			continue;
		if (!compare->bytes) {
			compare->first = compare->done + i;
			memcpy(compare->ours, ours, size);
			memcpy(compare->theirs, theirs, size);
		}
		compare->bytes++;
	}
	compare->elements++;
}

void compare_add(struct compare *compare, const void *ours, const void *theirs, size_t size)
{
	const unsigned char *a = ours, *b = theirs;
	size_t step = dtype_traits(compare->dtype)->size;

	for (size_t block; size; size -= block, a += block, b += block) {
		block = size < BLOCK ? size : BLOCK;
		if (memcmp(a, b, block) != 0)
			for (size_t at = 0, part; at < block; at += part) {
				part = block - at < step ? block - at : step;
				if (memcmp(a + at, b + at, part) != 0) {
					compare->done += at;
					compare_element(compare, a + at, b + at, part);
					compare->done -= at;
				}
			}
		compare->done += block;
	}
}
