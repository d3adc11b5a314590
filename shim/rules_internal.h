/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RULES_INTERNAL_H
#define GPUSHARE_SHIM_RULES_INTERNAL_H
/* What rules_parse.c makes and rules.c matches. */
#include "rules.h"

/* X(letter, value): what %<letter> stands for in a template, and its member in the values */
#define RULES_CONVERSIONS(X) X('i', index) X('p', pid) X('r', rank) X('d', device)

struct rules_span {
	uint64_t from, to; /* both belong to it; to is UINT64_MAX where it is open */
};

struct rule {
	const char *template; /* in rules->text, not terminated */
	size_t template_length;
	struct rules_span nth, size;
	int device; /* -1: any */
	unsigned int wait_ms;
	bool must;
	bool repeats;   /* has %i */
	uint64_t seen;  /* allocations for which size and device held */
	uint64_t taken; /* matches */
};

struct rules {
	char *text;
	size_t count;
	struct rule rule[];
};

#endif
