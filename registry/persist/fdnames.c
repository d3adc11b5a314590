/* SPDX-License-Identifier: MIT */
#include "persist/fdnames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "gpushare-"
#define FIELD "FDNAME="

_Static_assert(sizeof(PREFIX) + 20 <= FDNAMES_ONE, "room for the longest");

/* FDPOLL=0: what looks closed to poll() is memory all the same. */
size_t fdnames_write(char to[FDNAMES_MESSAGE], const char *verb, const uint64_t *generations,
		     size_t count)
{
	int length = snprintf(to, FDNAMES_MESSAGE, "%s\nFDPOLL=0\n" FIELD, verb);

	for (size_t i = 0; i < count; i++)
		length += snprintf(to + length, FDNAMES_MESSAGE - (size_t)length,
				   "%s" PREFIX "%" PRIu64, i ? ":" : "", generations[i]);
	return (size_t)length;
}

/* The line that begins with `what`. */
static const char *find_line(const char *message, const char *what)
{
	const char *at = message;

	while (at && strncmp(at, what, strlen(what)) != 0) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return at;
}

bool fdnames_says(const char *message, const char *verb)
{
	const char *line = find_line(message, verb);

	return line && strcspn(line, "\n") == strlen(verb);
}

bool fdnames_is_ours(const char *name, uint64_t *out_generation)
{
	const char *digits = name + sizeof(PREFIX) - 1;
	size_t length;

	if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0)
		return false;
	length = strspn(digits, "0123456789");
	if (!length || length > 20 || !strchr(":\n", digits[length]))
		return false;
	errno = 0;
	*out_generation = strtoull(digits, NULL, 10);
	return !errno;
}

int fdnames_read(const char *message, uint64_t out_generations[FDS_MAX])
{
	const char *at = find_line(message, FIELD);
	int count = 0;

	if (!at)
		return -1;
	at += sizeof(FIELD) - 1;
	if (!*at || *at == '\n')
		return 0;
	for (;;) {
		if (count == FDS_MAX || !fdnames_is_ours(at, &out_generations[count++]))
			return -1;
		at += strcspn(at, ":\n");
		if (*at++ != ':')
			return count;
	}
}
