/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RULES_INTERNAL_H
#define GPUSHARE_SHIM_RULES_INTERNAL_H
/* The parsed rules: made by rules_parse.c, rules_options.c and rules_error.c, matched by
 * rules.c. */
#include "rules.h"

struct rules_span {
	uint64_t from, to; /* inclusive; `to` is UINT64_MAX if the range is open */
};

struct rules_part {
	const char *from; /* NULL: not given; an empty part is not NULL */
	size_t length;
};

/* The first part is set by parsing and then constant; the second part holds the counters. Functions
 * that run without the lock read only the first part, `seen` and `taken`. */
struct rule {
	struct rules_part text; /* the whole rule */
	struct rules_part template;
	char *glob; /* from=; NULL: not given */
	struct rules_span nth, size;
	int device;		   /* -1: any */
	enum rules_api api;	   /* RULES_API_NONE: any */
	bool repeats;		   /* has %i */
	struct rules_match given;  /* the options; no name */
	struct rules_part keeping; /* the text of an option that requires keep; NULL: none */

	/* Changed under the callers' lock, except that rules_pass() increments `seen`
	 * without it. */
	_Atomic uint64_t seen;	/* allocations that matched all selectors but nth */
	_Atomic uint64_t taken; /* matches, less those that rules_return() undid */
	uint64_t next;		/* %i of the next match */
};

struct rules {
	char *text; /* the parts of the rules point into it */
	size_t count;
	struct rule rule[];
};

struct rules_parser {
	enum rules_kind kind;
	const char *variable;
	struct rules_part text; /* the value of the variable */
	char *error;
	size_t error_size;
};

static inline void rules_skip(struct rules_part *part, size_t bytes)
{
	part->from += bytes;
	part->length -= bytes;
}

/* rules_options.c: parse one option into `rule`. `seen` is a bit set of the options so far. */
bool rules_parse_option(const struct rules_parser *parser, struct rules_part text,
			unsigned int *seen, struct rule *rule);

/* rules_error.c: write the error line with `at` marked. Returns false. */
__attribute__((format(printf, 3, 4))) bool
rules_fail(const struct rules_parser *parser, struct rules_part at, const char *sentence, ...);

#endif
