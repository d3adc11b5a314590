/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "rules_internal.h"

/* Bytes of the text, as printed, that an error line shows around and inside the mark. */
#define SHOW_BEFORE 64
#define SHOW_MARKED 80
#define SHOW_AFTER 40

struct part {
	const char *from; /* NULL: there is none, which is not the same as an empty one */
	size_t length;
};

struct parser {
	enum rules_kind kind;
	const char *variable;
	struct part text;
	char *error;
	size_t error_size;
};

typedef const char *set_call(struct rule *rule, struct part value, const char *wants);

static set_call set_nth, set_size, set_device, set_wait, set_must;

/*
 * X(kind, name, set, wants): every option of the grammar. `set` returns NULL or the sentence that
 * says what is wrong, mostly `wants`.
 */
#define OPTIONS(X) \
	X(ANYWHERE, nth, set_nth, "nth wants N or A-B, counted from 1") \
	X(ANYWHERE, size, set_size, \
	  "size wants N, N-M or N-, in bytes or with K M G Ki Mi Gi") \
	X(ANYWHERE, device, set_device, "device wants a CUDA device number, counted from 0") \
	X(ATTACHING, wait, set_wait, "wait wants seconds, such as 30 or 0.5") \
	X(ATTACHING, must, set_must, "must takes no value") \
	X(LATER, api, NULL, NULL) \
	X(LATER, from, NULL, NULL) \
	X(LATER, keep, NULL, NULL) \
	X(LATER, ttl, NULL, NULL) \
	X(LATER, readonly, NULL, NULL) \
	X(LATER, map, NULL, NULL) \
	X(LATER, unified, NULL, NULL) \
	X(LATER, vmm, NULL, NULL) \
	X(LATER, adopt, NULL, NULL) \
	X(LATER, mode, NULL, NULL) \
	X(LATER, group, NULL, NULL) \
	X(LATER, tag, NULL, NULL)

static const struct option {
	enum { ANYWHERE, ATTACHING, LATER } kind;
	const char *name;
	set_call *set;
	const char *wants;
} options[] = {
#define X(kind, name, set, wants) {kind, #name, set, wants},
	OPTIONS(X)
#undef X
};

#define OPTION_COUNT (sizeof(options) / sizeof(*options))

static const char too_large[] = "the number is too large";
static const char backwards[] = "the range ends before it starts";

/* --- the error line --- */

/* One byte as it is printed: the line stays one line, and text, whatever the input holds. */
static size_t escape(char byte, char to[5])
{
	if (byte == '\\')
		return (size_t)snprintf(to, 5, "\\\\");
	if (byte >= ' ' && byte <= '~')
		return (size_t)snprintf(to, 5, "%c", byte);
	return (size_t)snprintf(to, 5, "\\x%02x", (unsigned char)byte);
}

/* `to` receives as much of the start of `part` as prints in `room` bytes, and dots if it is cut. */
static void show_start(struct part part, char *to, size_t room)
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

/* The same for the end of it. */
static void show_end(struct part part, char *to, size_t room)
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
	show_start((struct part){part.from + start, part.length - start}, to + strlen(to), room);
}

__attribute__((format(printf, 3, 4)))
static bool fail(const struct parser *parser, struct part at, const char *sentence, ...)
{
	char what[160], before[SHOW_BEFORE + 4], marked[SHOW_MARKED + 4], after[SHOW_AFTER + 4];
	const char *end = parser->text.from + parser->text.length;
	const char *rest = at.from + at.length;
	va_list arguments;

	va_start(arguments, sentence);
	vsnprintf(what, sizeof(what), sentence, arguments);
	va_end(arguments);
	show_end((struct part){parser->text.from, (size_t)(at.from - parser->text.from)}, before,
		 SHOW_BEFORE);
	show_start(at, marked, SHOW_MARKED);
	show_start((struct part){rest, (size_t)(end - rest)}, after, SHOW_AFTER);
	snprintf(parser->error, parser->error_size, "gpushare: %.32s: %s: %s>>>%s<<<%s",
		 parser->variable, what, before, marked, after);
	return false;
}

/* --- numbers --- */

static void skip(struct part *part, size_t bytes)
{
	part->from += bytes;
	part->length -= bytes;
}

static bool starts_with(const struct part *part, char byte)
{
	return part->length > 0 && *part->from == byte;
}

static bool starts_with_digit(const struct part *part)
{
	return part->length > 0 && *part->from >= '0' && *part->from <= '9';
}

static const char *take_number(struct part *part, uint64_t *out, const char *wants)
{
	uint64_t number = 0;

	if (!starts_with_digit(part))
		return wants;
	for (; starts_with_digit(part); skip(part, 1)) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*part->from - '0'), &number))
			return too_large;
	}
	*out = number;
	return NULL;
}

static const char *take_bytes(struct part *part, uint64_t *out, const char *wants)
{
	static const char units[] = "KMG";
	const char *fault = take_number(part, out, wants);
	const char *unit;
	uint64_t step = 1000;

	if (fault || part->length == 0)
		return fault;
	unit = memchr(units, *part->from, sizeof(units) - 1);
	if (!unit)
		return NULL;
	skip(part, 1);
	if (starts_with(part, 'i')) {
		skip(part, 1);
		step = 1024;
	}
	for (const char *u = units; u <= unit; u++)
		if (__builtin_mul_overflow(*out, step, out))
			return too_large;
	return NULL;
}

typedef const char *take_call(struct part *part, uint64_t *out, const char *wants);

/* N or A-B, and A- where that is allowed. */
static const char *take_span(struct part value, take_call *take, bool may_be_open,
			     struct rules_span *out, const char *wants)
{
	struct rules_span span;
	const char *fault = take(&value, &span.from, wants);

	if (fault)
		return fault;
	span.to = span.from;
	if (starts_with(&value, '-')) {
		skip(&value, 1);
		span.to = UINT64_MAX;
		if (value.length > 0 || !may_be_open)
			fault = take(&value, &span.to, wants);
	}
	if (fault)
		return fault;
	if (value.length > 0)
		return wants;
	if (span.from > span.to)
		return backwards;
	*out = span;
	return NULL;
}

/* --- options --- */

static const char *set_nth(struct rule *rule, struct part value, const char *wants)
{
	const char *fault = take_span(value, take_number, false, &rule->nth, wants);

	return !fault && rule->nth.from == 0 ? wants : fault;
}

static const char *set_size(struct rule *rule, struct part value, const char *wants)
{
	const char *fault = take_span(value, take_bytes, true, &rule->size, wants);

	return !fault && rule->size.to == 0 ? "no allocation has 0 bytes" : fault;
}

static const char *set_device(struct rule *rule, struct part value, const char *wants)
{
	uint64_t number;
	const char *fault = take_number(&value, &number, wants);

	if (fault || value.length > 0)
		return fault ? fault : wants;
	if (number > INT_MAX)
		return too_large;
	rule->device = (int)number;
	return NULL;
}

/* Parts of a millisecond round up, so that a wait that was asked for is never none. */
static const char *set_wait(struct rule *rule, struct part value, const char *wants)
{
	uint64_t ms, part_ms = 0, scale = 100;
	const char *fault = take_number(&value, &ms, wants);
	bool more = false;

	if (fault)
		return fault;
	if (ms > UINT_MAX / 1000 - 1)
		return too_large;
	if (starts_with(&value, '.')) {
		skip(&value, 1);
		if (!starts_with_digit(&value))
			return wants;
		for (; starts_with_digit(&value); skip(&value, 1), scale /= 10) {
			part_ms += scale * (uint64_t)(*value.from - '0');
			more |= scale == 0 && *value.from != '0';
		}
	}
	if (value.length > 0)
		return wants;
	rule->wait_ms = (unsigned int)(ms * 1000 + part_ms + more);
	return NULL;
}

static const char *set_must(struct rule *rule, struct part value, const char *wants)
{
	if (value.from)
		return wants;
	rule->must = true;
	return NULL;
}

static const struct option *find_option(struct part name)
{
	for (const struct option *option = options; option < options + OPTION_COUNT; option++)
		if (strlen(option->name) == name.length &&
		    memcmp(option->name, name.from, name.length) == 0)
			return option;
	return NULL;
}

static bool parse_option(const struct parser *parser, struct part text, unsigned int *given,
			 struct rule *rule)
{
	const char *equals = memchr(text.from, '=', text.length);
	struct part name = text, value = {0};
	const struct option *option;
	const char *fault;

	if (equals) {
		name.length = (size_t)(equals - text.from);
		value = (struct part){equals + 1, text.length - name.length - 1};
	}
	option = find_option(name);
	if (!option)
		return fail(parser, text, "unknown option");
	if (option->kind == LATER)
		return fail(parser, text, "option \"%s\" is not supported by this version",
			    option->name);
	if (option->kind == ATTACHING && parser->kind != RULES_ATTACH)
		return fail(parser, text, "option \"%s\" is for GPUSHARE_ATTACH only", option->name);
	if (*given & 1u << (option - options))
		return fail(parser, text, "option \"%s\" is given twice", option->name);
	*given |= 1u << (option - options);
	fault = option->set(rule, value, option->wants);
	return fault ? fail(parser, text, "%s", fault) : true;
}

/* --- rules --- */

static bool is_name_byte(char byte)
{
	return byte != '\0' && name_is_valid((char[]){byte, '\0'});
}

/* `at` starts at a '%'. */
static bool parse_conversion(const struct parser *parser, struct part at, struct rule *rule)
{
	at.length = at.length < 2 ? at.length : 2;
	switch (at.length == 2 ? at.from[1] : '\0') {
#define X(letter, value) case letter:
		RULES_CONVERSIONS(X)
#undef X
		rule->repeats |= at.from[1] == 'i';
		return true;
	case '%':
		return fail(parser, at, "%%%% stands for a %% sign, which no name can hold");
	default:
		return fail(parser, at, "a template takes %%i %%p %%r %%d");
	}
}

static bool parse_template(const struct parser *parser, struct part text, struct rule *rule)
{
	size_t shortest = 0; /* that the name can be: a conversion yields a byte at least */

	for (size_t i = 0; i < text.length; i++, shortest++) {
		if (text.from[i] == '%') {
			if (!parse_conversion(parser, (struct part){text.from + i, text.length - i}, rule))
				return false;
			i++;
		} else if (!is_name_byte(text.from[i])) {
			return fail(parser, (struct part){text.from + i, 1},
				    "a name is made of A-Z a-z 0-9 . _ / - and %%i %%p %%r %%d");
		}
	}
	if (shortest > GPUSHARE_NAME_MAX)
		return fail(parser, text, "the name is longer than %d bytes", GPUSHARE_NAME_MAX);
	rule->template = text.from;
	rule->template_length = text.length;
	return true;
}

/* The bytes up to `byte` or the end; `rest` moves past them and it. True if `byte` was there. */
static bool cut(struct part *rest, char byte, struct part *out)
{
	const char *found = memchr(rest->from, byte, rest->length);

	*out = (struct part){rest->from, found ? (size_t)(found - rest->from) : rest->length};
	skip(rest, out->length + (found ? 1 : 0));
	return found != NULL;
}

static bool parse_rule(const struct parser *parser, struct part text, struct rule *rule)
{
	struct part piece;
	unsigned int given = 0;
	bool more = cut(&text, ':', &piece);

	*rule = (struct rule){
		.nth = {1, UINT64_MAX}, .size = {0, UINT64_MAX}, .device = -1};
	if (piece.length == 0)
		return fail(parser, (struct part){piece.from, 1}, "a rule starts with a name");
	if (!parse_template(parser, piece, rule))
		return false;
	while (more) {
		more = cut(&text, ':', &piece);
		if (piece.length == 0)
			return fail(parser, (struct part){piece.from - 1, 1}, "an empty option");
		if (!parse_option(parser, piece, &given, rule))
			return false;
	}
	return true;
}

static bool parse_all(const struct parser *parser, struct rules *rules)
{
	struct part rest = parser->text, piece;
	size_t blank = strcspn(rest.from, " \t\n\v\f\r");
	bool more = true;

	if (blank < rest.length)
		return fail(parser, (struct part){rest.from + blank, 1}, "rules can't hold blanks");
	while (more) {
		more = cut(&rest, ',', &piece);
		if (piece.length == 0 && more)
			return fail(parser, (struct part){piece.from, 1}, "an empty rule");
		if (piece.length == 0)
			return fail(parser, (struct part){piece.from - 1, 1},
				    "nothing follows the last comma");
		if (!parse_rule(parser, piece, &rules->rule[rules->count]))
			return false;
		rules->count++;
	}
	return true;
}

/* Room for every rule that the text can hold, and a copy of it that the templates point into. */
static struct rules *make_room(const char *text)
{
	struct rules *rules;
	size_t most = 1;

	for (const char *byte = text; *byte; byte++)
		most += *byte == ',';
	rules = calloc(1, sizeof(*rules) + most * sizeof(*rules->rule));
	if (!rules)
		return NULL;
	rules->text = strdup(text);
	return rules->text ? rules : rules_free(rules);
}

struct rules *rules_parse(enum rules_kind kind, const char *variable, const char *text, char *error,
			  size_t error_size)
{
	struct parser parser = {
		.kind = kind, .variable = variable, .error = error, .error_size = error_size};
	struct rules *rules;

	if (error_size > 0)
		error[0] = '\0';
	if (!text || !*text)
		return NULL;
	rules = make_room(text);
	if (!rules) {
		snprintf(error, error_size, "gpushare: %.32s: out of memory", variable);
		return NULL;
	}
	parser.text = (struct part){rules->text, strlen(rules->text)};
	return parse_all(&parser, rules) ? rules : rules_free(rules);
}
