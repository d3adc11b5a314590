/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_TALLY_H
#define TESTS_E2E_SCRIPT_TALLY_H
/* What is done a thousand times: how often it failed, and how it did the first time. */
#include <stdarg.h>

#include "script.h"

struct tally {
	int failed;
};

/* The turn with that number failed; the first one that does says how, on stderr. */
__attribute__((format(printf, 3, 4))) static inline void
tally_failed(struct tally *tally, uint64_t turn, const char *format, ...)
{
	va_list list;

	if (tally->failed++)
		return;
	fprintf(stderr, "script: the first to fail is number %llu: ", (unsigned long long)turn);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}

#endif
