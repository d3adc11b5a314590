/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_STATUS_H
#define TESTS_E2E_STATUS_H
/* Return the name of an API status, such as E_NOT_FOUND; "?" if it is none. */
#include "gpushare.h"

static inline const char *status_name(int status)
{
#define X(name, value, text) \
	if (status == (value)) \
		return #name;
	GPUSHARE_STATUSES(X)
#undef X
	return "?";
}

#endif
