/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RULES_H
#define GPUSHARE_TESTS_UNIT_RULES_H
/* What the tests of the rules share. Included after cmocka.h. */
#include "preload/rules.h"

static const struct rules_process process = {.pid = 4711, .rank = "3"};

/* Rules that must parse. */
static inline struct rules *parsed(enum rules_kind kind, const char *text)
{
	char error[512];
	struct rules *rules = rules_parse(kind, "GPUSHARE_NAME", text, error, sizeof(error));

	if (!rules)
		fail_msg("%s", error);
	assert_string_equal(error, "");
	return rules;
}

#endif
