/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PATTERN_H
#define GPUSHARE_REGISTRY_PATTERN_H
/* Patterns of fnmatch(3) over the names in the store, which is in byte order: a literal prefix of the pattern
 * limits the range, and most patterns need no fnmatch(). */
#include "state/store.h"

struct pattern {
	const char *text; /* "" for all names */
	size_t prefix;	  /* bytes of it that stand for themselves */
	bool plain;	  /* '*' and '?' are all that is special in it */
};

struct pattern pattern_begin(const char *text);
/* The first name above `after` that may fit; NULL: none. */
const struct entry *pattern_seek(const struct pattern *pattern, const struct store *store,
				 const char *after);
/* No name from this one on fits. */
bool pattern_is_past(const struct pattern *pattern, const char *name);
/* Adds the steps that it takes to *work. */
bool pattern_fits(const struct pattern *pattern, const char *name, size_t *work);

#endif
