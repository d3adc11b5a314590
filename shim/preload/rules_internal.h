/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RULES_INTERNAL_H
#define GPUSHARE_SHIM_RULES_INTERNAL_H
/* What rules_parse.c, rules_options.c and rules_error.c make together, and rules.c matches. */
#include "rules.h"

/* X(letter, value): what %<letter> stands for in a template, and its member in the values */
#define RULES_CONVERSIONS(X) X('i', index) X('p', pid) X('r', rank) X('d', device)

struct rules_span {
	uint64_t from, to; /* both belong to it; to is UINT64_MAX where it is open */
};

struct rules_part {
	const char *from; /* NULL: there is none, which is not the same as an empty one */
	size_t length;
};

/* Two parts: what parsing sets for good, and the counters. rules_concern() reads the first only. */
struct rule {
	struct rules_part text; /* all of it, in rules.given */
	struct rules_part template;
	struct rules_part glob; /* from=; ends with a zero byte once all is parsed */
	struct rules_span nth, size;
	int device;	    /* -1: any */
	enum rules_api api; /* RULES_API_NONE: any */
	unsigned int wait_ms;
	bool must;
	bool repeats; /* has %i */
	uint32_t flags, ttl_s, mode;
	struct rules_part group; /* group= */
	bool vmm, adopt, unified;
	struct rules_part keeping; /* an option that only makes sense beside keep */

	/* Changed under the callers' lock, but for `seen`, which rules_pass() counts up without it. */
	_Atomic uint64_t seen;	/* allocations for which all selectors but nth held */
	_Atomic uint64_t taken; /* matches that were not returned */
	uint64_t next;		/* what %i stands for in the next match */
};

struct rules {
	char *text;  /* the templates and globs point into it */
	char *given; /* the same as it was given: globs have no zero byte here */
	size_t count;
	struct rule rule[];
};

struct rules_parser {
	enum rules_kind kind;
	const char *variable;
	struct rules_part text; /* all of it */
	char *error;
	size_t error_size;
};

static inline void rules_skip(struct rules_part *part, size_t bytes)
{
	part->from += bytes;
	part->length -= bytes;
}

/* rules_options.c: one option into `rule`; `given` collects which have been. */
bool rules_parse_option(const struct rules_parser *parser, struct rules_part text,
			unsigned int *given, struct rule *rule);

/* rules_error.c: write the error line with `at` marked. Returns false. */
__attribute__((format(printf, 3, 4))) bool
rules_fail(const struct rules_parser *parser, struct rules_part at, const char *sentence, ...);

#endif
