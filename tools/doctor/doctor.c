/* SPDX-License-Identifier: MIT */
#include "doctor.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "common/show.h"
#include "common/terminal.h"
#include "common/tool.h"

static const struct {
	const char *text;
	enum style style;
	int code;
} verdicts[] = {
#define X(name, text, colour, code) {text, STYLE_##colour, code},
    VERDICTS(X)
#undef X
};

static json_t *checks; /* objects with status, area, text and next */
static enum verdict worst;
static bool lost; /* there was no memory to add a check */

void doctor_say(enum verdict verdict, const char *area, const char *next, const char *format, ...)
{
	_cleanup_free_ char *text = NULL, *step = next ? strdup(next) : NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	/* Paths, and messages of drivers and loaders, may contain any bytes. */
	if (text)
		tool_printable(text, text, strlen(text) + 1);
	if (step)
		tool_printable(step, step, strlen(step) + 1);
	if (!checks)
		checks = json_array();
	lost |= (next && !step) ||
		json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s?}", "status",
							verdicts[verdict].text, "area", area,
							"text", text, "next", step));
	if (verdict > worst)
		worst = verdict;
}

bool doctor_read_line(const char *path, char out[DOCTOR_WORDS_MAX])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t size = fd < 0 ? -1 : read(fd, out, DOCTOR_WORDS_MAX - 1);

	out[size > 0 ? size : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return *out;
}

static const char *member(const json_t *check, const char *key)
{
	return json_string_value(json_object_get(check, key));
}

static void print_text(void)
{
	json_t *check;
	size_t i;

	json_array_foreach(checks, i, check)
	{
		const char *status = member(check, "status"), *next = member(check, "next");
		enum verdict verdict = VERDICT_OK;

		while (strcmp(verdicts[verdict].text, status) != 0)
			verdict++;
		printf("%s%-4s%s  %-11s  %s\n", terminal_style(verdicts[verdict].style), status,
		       terminal_style(STYLE_PLAIN), member(check, "area"), member(check, "text"));
		if (next)
			printf("                   next: %s\n", next);
	}
}

int doctor_print(bool json)
{
	int printed;

	if (lost) {
		tool_error("no memory for the list of checks");
		return TOOL_FAILED;
	}
	if (!json)
		print_text();
	printed = json ? show_dump(json_pack("{s:s, s:o}", "status", verdicts[worst].text, "checks",
					     checks))
		       : tool_flush(TOOL_DONE);
	return printed ? printed : verdicts[worst].code;
}
