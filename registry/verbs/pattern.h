/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PATTERN_H
#define GPUSHARE_REGISTRY_PATTERN_H
/*
 * What a pattern of fnmatch(3) says at first sight: how the names begin and end that fit it. Of a
 * million names most need no closer look, and those that begin otherwise none at all.
 */
#include "state/store.h"

struct pattern {
	const char *text;   /* "" for all names */
	size_t prefix;	    /* so many bytes of it stand for themselves; of all, 0 */
	const char *suffix; /* from here on, too */
	size_t suffix_length;
	bool plain; /* nothing else in it but '*', '?' and what stands for itself */
};

struct pattern pattern_begin(const char *text);
/* The first name above `after` that may fit; so may those behind it. NULL: none. */
const struct entry *pattern_seek(const struct pattern *pattern, const struct store *store,
				 const char *after);
/* No name from this one on fits. */
bool pattern_is_past(const struct pattern *pattern, const char *name);
/* false: it does not fit, at first sight. */
bool pattern_may_fit(const struct pattern *pattern, const char *name);
/* A closer look. The steps that it took, or has to be taken to have, are added to *work. */
bool pattern_fits(const struct pattern *pattern, const char *name, size_t *work);

#endif
