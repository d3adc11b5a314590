/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_SCRIPT_TALLY_H
#define TESTS_E2E_SCRIPT_TALLY_H
/* Counts the failures of a call that is repeated many times, and prints the first one. */
#include <stdarg.h>

#include "script.h"

struct tally {
	int failed;
};

/* Count a failure of turn number `turn`. For the first failure, print the text to stderr. */
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
