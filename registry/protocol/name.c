/* SPDX-License-Identifier: MIT */
/* What a buffer may be called. */
#include <string.h>

#include "protocol.h"

/* Not isalnum(): a locale must not change what a name is. */
static bool is_name_byte(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '/' || c == '-';
}

const char *name_fault(const char *name)
{
	size_t length = 0;

	if (!name || !*name)
		return "a name has at least one byte";
	if (*name == '-') /* programs would take it for an option */
		return "a name does not begin with '-'";
	for (; name[length]; length++) {
		if (length == GPUSHARE_NAME_MAX)
			return "a name has at most 255 bytes";
		if (!is_name_byte(name[length]))
			return "a name is 1 to 255 bytes of A-Z a-z 0-9 . _ / -";
	}
	return NULL;
}

bool name_is_valid(const char *name)
{
	return !name_fault(name);
}

_Static_assert(GPUSHARE_NAME_MAX == 255, "name_fault() says 255");
_Static_assert(sizeof(((record *)0)->name) == GPUSHARE_NAME_MAX + 1, "registry.options differs");

bool name_is_number(const char *group)
{
	return *group >= '0' && *group <= '9';
}
