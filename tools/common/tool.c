/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "protocol.h"

#define FIELD_LABEL 12 /* columns of a label plus the blanks after the colon */

const char *tool_name = "gpushare", *tool_verb;

/* Format the text. Replace control characters, because parts of it may come from files or other
 * processes. The caller frees the result. NULL: out of memory. */
static char *safe_text(const char *format, va_list arguments)
{
	char *text = NULL;

	if (vasprintf(&text, format, arguments) < 0)
		return NULL;
	for (char *at = text_control(text); at; at = text_control(at))
		*at = '?';
	return text;
}

static void say(const char *format, va_list arguments)
{
	_cleanup_free_ char *text = safe_text(format, arguments);

	fprintf(stderr, "%s: %s", tool_name, text ? text : strerror(ENOMEM));
}

void tool_field(const char *label, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = safe_text(format, arguments);
	va_end(arguments);
	printf("%s:%*s%s\n", label, (int)(FIELD_LABEL - strlen(label)), "",
	       text ? text : strerror(ENOMEM));
}

void tool_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

static void print_try(void)
{
	fprintf(stderr, "try '%s%s%s --help'\n", tool_name, tool_verb ? " " : "",
		tool_verb ? tool_verb : "");
}

int tool_usage(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	fputs("; ", stderr);
	print_try();
	return TOOL_USAGE;
}

int tool_getopt(int argc, char **argv, const char *letters, const struct option *options)
{
	char *before = argv[0];
	_cleanup_free_ char *words = NULL;
	int option;

	/* getopt_long() begins its messages with argv[0] */
	if (asprintf(&words, "%s%s%s", tool_name, tool_verb ? " " : "",
		     tool_verb ? tool_verb : "") < 0)
		words = NULL;
	argv[0] = words ? words : before;
	option = getopt_long(argc, argv, letters, options, NULL);
	argv[0] = before;
	if (option == '?')
		print_try();
	return option;
}

void tool_say_setting(const char *variable, const char *value, const char *wanted)
{
	tool_error("%s is '%s', which is ignored: it takes %s", variable, value, wanted);
}

int tool_failed(int status)
{
	const char *why = gpushare_explain();

	tool_error("%s", *why ? why : gpushare_status_text(status));
	return TOOL_FAILED;
}

int tool_version(void)
{
	printf("%s %s\n", tool_name, gpushare_version());
	return tool_flush(TOOL_DONE);
}

int tool_flush(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	if (errno != EPIPE)
		tool_error("writing to standard output failed: %s", strerror(errno));
	return TOOL_FAILED;
}

uint64_t tool_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool tool_parse_size(const char *text, uint64_t *out_size)
{
	uint64_t size;
	const char *end = text_size(text, &size);

	if (!end || strcmp(*end == 'B' ? end + 1 : end, "") != 0)
		return false;
	*out_size = size;
	return true;
}

bool tool_parse_seconds(const char *text, unsigned int *out_ms)
{
	size_t length = strspn(text, "0123456789.");
	char *end;
	double ms = strtod(text, &end) * 1000 + 1e-6; /* 1.001 * 1000 is less than 1001 */

	if (!length || text[length] || *text == '.' || text[length - 1] == '.' || *end ||
	    ms > UINT32_MAX)
		return false;
	*out_ms = (unsigned int)ms;
	return true;
}

void tool_format_size(uint64_t size, char out[TOOL_TEXT_MAX])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)size;
	size_t unit = 0;

	while (value >= 1024 && unit < sizeof(units) / sizeof(*units) - 1) {
		value /= 1024;
		unit++;
	}
	if (value == (double)(uint64_t)value)
		snprintf(out, TOOL_TEXT_MAX, "%.0f %s", value, units[unit]);
	else
		snprintf(out, TOOL_TEXT_MAX, "%.1f %s", value, units[unit]);
}

void tool_format_age(uint64_t seconds, char out[TOOL_TEXT_MAX])
{
	unsigned long long s = seconds;

	if (s < 60)
		snprintf(out, TOOL_TEXT_MAX, "%llus", s);
	else if (s < 3600)
		snprintf(out, TOOL_TEXT_MAX, "%llum%02llus", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, TOOL_TEXT_MAX, "%lluh%02llum", s / 3600, s / 60 % 60);
	else
		snprintf(out, TOOL_TEXT_MAX, "%llud%02lluh", s / 86400, s / 3600 % 24);
}

void tool_printable(const char *from, char *out, size_t out_size)
{
	size_t used = 0;

	for (; *from && used + 1 < out_size; from++)
		out[used++] = *from >= ' ' && *from <= '~' ? *from : '?';
	out[used] = '\0';
}

void tool_format_uuid(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX])
{
	char *to = out + sprintf(out, "GPU-");

	for (int i = 0; i < GPUSHARE_UUID_SIZE; i++)
		to +=
		    sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

bool tool_is_pattern(const char *name)
{
	return strpbrk(name, "*?[") != NULL;
}

bool tool_check_name(const char *name)
{
	const char *fault = name_fault(name);

	if (fault)
		tool_error("'%.64s%s' is not a buffer name: %s", name,
			   strlen(name) > 64 ? "..." : "", fault);
	return !fault;
}

/* A registry that exits without buffers removes its state file. If the file exists, the next
 * registry may still have names. */
static bool names_remain(const char *given)
{
	char directory[GPUSHARE_PATH_MAX], path[GPUSHARE_PATH_MAX + sizeof("/" GPUSHARE_STATE)];

	if (directory_find(given, directory))
		return false;
	snprintf(path, sizeof(path), "%s/" GPUSHARE_STATE, directory);
	return !access(path, F_OK);
}

struct gpushare_session *tool_open(const char *directory, bool start)
{
	const struct gpushare_open_options options = {
	    .directory = directory, .no_autostart = !start && !names_remain(directory)};
	struct gpushare_session *session = NULL;
	int status;

	tool_check_settings(tool_say_setting);
	status = gpushare_open(&options, &session);
	if (status)
		tool_failed(status);
	return session;
}

void tool_close(struct gpushare_session **session)
{
	gpushare_close(*session);
	*session = NULL;
}
