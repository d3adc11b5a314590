/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_STATUS_H
#define TESTS_E2E_STATUS_H
/* The API's statuses by name: E_NOT_FOUND; ? for what is none. */
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
