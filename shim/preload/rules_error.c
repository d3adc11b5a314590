/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rules_internal.h"

/* Limits in printed bytes, which keep an error line under 500 bytes. The marked part may be a whole
 * name that is just too long. The text on each side is shorter if the marked part or the sentence
 * is long. */
#define SHOW_MARKED 260
#define SHOW_ASIDE 64
#define SHOW_ASIDE_OF_MUCH 16

/* Write one byte as printable text. Escaping keeps the message one line for any input. */
static size_t escape(char byte, char to[5])
{
	if (byte == '\\')
		return (size_t)snprintf(to, 5, "\\\\");
	if (byte >= ' ' && byte <= '~')
		return (size_t)snprintf(to, 5, "%c", byte);
	return (size_t)snprintf(to, 5, "\\x%02x", (unsigned char)byte);
}

/* Copy the start of `part` to `to`, at most `room` printed bytes, and dots if it is cut. */
static void show_start(struct rules_part part, char *to, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < part.length; i++) {
		char byte[5];
		size_t width = escape(part.from[i], byte);

		if (used + width > room) {
			strcpy(to + used, "...");
			return;
		}
		memcpy(to + used, byte, width);
		used += width;
	}
	to[used] = '\0';
}

/* The same for the end of `part`. */
static void show_end(struct rules_part part, char *to, size_t room)
{
	size_t used = 0, start = part.length;
	char byte[5];

	while (start > 0) {
		size_t width = escape(part.from[start - 1], byte);

		if (used + width > room)
			break;
		used += width;
		start--;
	}
	strcpy(to, start > 0 ? "..." : "");
	show_start((struct rules_part){part.from + start, part.length - start}, to + strlen(to),
		   room);
}

bool rules_fail(const struct rules_parser *parser, struct rules_part at, const char *sentence, ...)
{
	char what[256], before[SHOW_ASIDE + 8], marked[SHOW_MARKED + 4], after[SHOW_ASIDE + 4];
	const char *end = parser->text.from + parser->text.length;
	const char *rest = at.from + at.length;
	bool is_long; /* the sentence is long: it lists names */
	size_t aside;
	va_list arguments;

	va_start(arguments, sentence);
	vsnprintf(what, sizeof(what), sentence, arguments);
	va_end(arguments);
	is_long = strlen(what) > 2 * SHOW_ASIDE;
	show_start(at, marked, is_long ? SHOW_ASIDE : SHOW_MARKED);
	aside = is_long || strlen(marked) > 2 * SHOW_ASIDE ? SHOW_ASIDE_OF_MUCH : SHOW_ASIDE;
	show_end((struct rules_part){parser->text.from, (size_t)(at.from - parser->text.from)},
		 before, aside);
	show_start((struct rules_part){rest, (size_t)(end - rest)}, after, aside);
	snprintf(parser->error, parser->error_size, "gpushare: %.32s: %s: %s>>>%s<<<%s",
		 parser->variable, what, before, marked, after);
	return false;
}
