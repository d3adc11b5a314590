/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOSEST_H
#define GPUSHARE_REGISTRY_CLOSEST_H
/* Names that a mistyped one may have meant. */
#include <stddef.h>

#include "limit.h"

struct lease;
struct registry;

/* Edits (insert, remove, replace a byte) between two names; more than `most` is `most` + 1, and so is
 * the distance of an `a` that is longer than a name can be. */
unsigned int closest_distance(const char *a, const char *b, unsigned int most);

/* Up to LIMIT_SUGGESTIONS names within max(2, length / 3) edits, closest first, that `lease` may see. None
 * of more than LIMIT_SUGGESTION_SCAN, where it may not see them all. */
size_t closest_find(const struct registry *registry, const struct lease *lease, const char *name,
		    const char *out_names[LIMIT_SUGGESTIONS]);

#endif
