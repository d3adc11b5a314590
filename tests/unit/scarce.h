/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_SCARCE_H
#define GPUSHARE_TESTS_UNIT_SCARCE_H
/*
 * In tests named unit_scarce_*, which are linked with --wrap for each of these calls: one of them
 * fails that this thread makes, whoever's it is. What can fail, and how, is in faults/fault_calls.h.
 *
 *	SCARCE_EACH (nth) {
 *		scarce_begin(nth);
 *		status = ...;
 *		if (!scarce_end())
 *			...there were fewer calls: nothing failed
 *	}
 */
#include <stdbool.h>

/* The nth of all these calls from now on, 1 is the next. */
void scarce_begin(unsigned int nth);
/* No more. true: there was one that failed; the loop goes on. */
bool scarce_end(void);
/* Its name. */
const char *scarce_what(void);
/* Starts again with the first, and no more than 1000. */
bool scarce_goes_on(unsigned int nth);

#define SCARCE_EACH(nth) for (unsigned int nth = 1; scarce_goes_on(nth); nth++)

#endif
