/* SPDX-License-Identifier: MIT */
/* The page of changes: where a name's are counted. */
#include "protocol.h"

_Static_assert(sizeof(struct changes_page) == 8192, "two pages, for every compiler");

/* FNV-1a */
size_t changes_slot(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * UINT64_C(0x100000001b3);
	return (size_t)(hash ^ hash >> 32) % CHANGES_SLOTS;
}
