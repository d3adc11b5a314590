/* SPDX-License-Identifier: MIT */
/* What an audit line looks like. Names, commands and sentences are others' words: in quotes, with all
 * that could end the quotes or the line written as \xNN. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "audit.h"
#include "os/clock.h"

struct text {
	char *at;
	size_t left; /* with the final NUL */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *to, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(to->at, to->left, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if ((size_t)length >= to->left)
		length = (int)to->left - 1;
	to->at += length;
	to->left -= (size_t)length;
}

static void put_word(struct text *to, const char *word)
{
	for (; *word; word++) {
		unsigned char byte = (unsigned char)*word;

		if (byte < ' ' || byte >= 0x7f || byte == '"' || byte == '\\')
			put(to, "\\x%02x", byte);
		else
			put(to, "%c", byte);
	}
}

static void put_quoted(struct text *to, const char *key, const char *word)
{
	put(to, " %s=\"", key);
	put_word(to, word);
	put(to, "\"");
}

static void put_time(struct text *to, uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / NS_PER_S);
	char text[32] = "";
	struct tm utc;

	if (gmtime_r(&seconds, &utc))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	put(to, "%s.%06uZ ", text, (unsigned int)(unix_ns % NS_PER_S / 1000));
}

static void put_line(struct text *to, const struct audit_line *line)
{
	put(to, "%s uid=%" PRIu32, line->verb, line->uid);
	if (line->left_out) {
		put(to, " count=%" PRIu64, line->left_out);
		return;
	}
	put(to, " pid=%" PRId32, line->pid);
	put_quoted(to, "command", line->command);
	if (*line->name)
		put_quoted(to, "name", line->name);
	if (line->generation)
		put(to, " generation=%" PRIu64, line->generation);
	if (line->size)
		put(to, " size=%" PRIu64, line->size);
	put(to, " outcome=%s", line->outcome);
	if (*line->why)
		put_quoted(to, "why", line->why);
}

size_t audit_text(const struct audit_line *line, bool dated, char out[AUDIT_LINE_MAX])
{
	struct text to = {out, AUDIT_LINE_MAX};

	if (dated)
		put_time(&to, line->unix_ns);
	put_line(&to, line);
	return (size_t)(to.at - out);
}

size_t audit_journal_text(const struct audit_line *line, char out[2 * AUDIT_LINE_MAX])
{
	struct text to = {out, 2 * AUDIT_LINE_MAX};

	put(&to, "MESSAGE=");
	put_line(&to, line);
	put(&to, "\nPRIORITY=%d\nSYSLOG_IDENTIFIER=gpushare-registry\nGPUSHARE_VERB=%s\n",
	    *line->why || line->left_out ? 4 : 5, line->verb);
	put(&to, "GPUSHARE_UID=%" PRIu32 "\nGPUSHARE_PID=%" PRId32 "\nGPUSHARE_NAME=", line->uid,
	    line->pid);
	put_word(&to, line->name);
	put(&to, "\nGPUSHARE_OUTCOME=%s\n", line->outcome ? line->outcome : "");
	return (size_t)(to.at - out);
}
