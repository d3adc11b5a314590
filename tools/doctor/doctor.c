/* SPDX-License-Identifier: MIT */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

struct check {
	enum verdict verdict;
	const char *area; /* a literal, not copied */
	char *text, *next;
};

struct doctor {
	struct check *checks;
	size_t count, room;
	bool lost; /* a check was lost for lack of memory */
};

struct doctor *doctor_new(void)
{
	return calloc(1, sizeof(struct doctor));
}

struct doctor *doctor_free(struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++) {
		free(doctor->checks[i].text);
		free(doctor->checks[i].next);
	}
	free(doctor->checks);
	free(doctor);
	return NULL;
}

static struct check *add(struct doctor *doctor)
{
	if (doctor->count == doctor->room) {
		size_t room = doctor->room ? 2 * doctor->room : 32;
		struct check *more = realloc(doctor->checks, room * sizeof(*more));

		if (!more)
			return NULL;
		doctor->checks = more;
		doctor->room = room;
	}
	return &doctor->checks[doctor->count];
}

/* Paths, and texts of drivers and loaders, may hold bytes that don't belong on a terminal or in
 * JSON. */
static void make_printable(char *text)
{
	for (; text && *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void doctor_say(struct doctor *doctor, enum verdict verdict, const char *area, const char *next,
		const char *format, ...)
{
	struct check *check = add(doctor);
	_cleanup_free_ char *text = NULL;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		text = NULL;
	if (!check || !text) {
		doctor->lost = true;
		return;
	}
	*check = (struct check){.verdict = verdict, .area = area, .text = text};
	text = NULL;
	if (next)
		check->next = strdup(next);
	doctor->lost |= next && !check->next;
	make_printable(check->text);
	make_printable(check->next);
	doctor->count++;
}

static enum verdict worst(const struct doctor *doctor)
{
	enum verdict all = VERDICT_OK;

	for (size_t i = 0; i < doctor->count; i++)
		if (doctor->checks[i].verdict > all)
			all = doctor->checks[i].verdict;
	return all;
}

static void print_text(const struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++) {
		const struct check *check = &doctor->checks[i];

		printf("%s%-4s%s  %-11s  %s\n", terminal_style(verdicts[check->verdict].style),
		       verdicts[check->verdict].text, terminal_style(STYLE_PLAIN), check->area,
		       check->text);
		if (check->next)
			printf("                   next: %s\n", check->next);
	}
}

static json_t *checks_json(const struct doctor *doctor)
{
	json_t *all = json_array();

	for (size_t i = 0; i < doctor->count; i++) {
		const struct check *check = &doctor->checks[i];

		json_array_append_new(
		    all, json_pack("{s:s, s:s, s:s, s:s?}", "status", verdicts[check->verdict].text,
				   "area", check->area, "text", check->text, "next", check->next));
	}
	return json_pack("{s:s, s:o}", "status", verdicts[worst(doctor)].text, "checks", all);
}

int doctor_print(const struct doctor *doctor, bool json)
{
	int code = verdicts[worst(doctor)].code, printed;

	if (doctor->lost) {
		tool_error("no memory for all that was found");
		return TOOL_FAILED;
	}
	if (!json)
		print_text(doctor);
	printed = json ? show_dump(checks_json(doctor)) : tool_flush(TOOL_DONE);
	return printed ? printed : code;
}
