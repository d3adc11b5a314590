/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "rules_internal.h"

static bool is_name_byte(char byte)
{
	return byte != '\0' && name_is_valid((char[]){'x', byte, '\0'});
}

/* Return NULL if the template is valid, else the error sentence. */
static const char *template_fault(struct rules_part rest)
{
	size_t shortest = 0; /* length of the shortest name: a conversion yields a byte or more */

	if (rest.length == 0)
		return "a rule starts with a name";
	if (*rest.from == '-')
		return "a name does not begin with '-'";
	for (; rest.length > 0; shortest++) {
		bool percent = *rest.from == '%';
		char letter = rest.length > 1 ? rest.from[1] : '\0';

		if (percent && letter == '%')
			return "%% stands for a % sign, which no name can hold";
		if (percent && (!letter || !strchr("iprd", letter)))
			return "a template takes %i %p %r %d";
		if (!percent && !is_name_byte(*rest.from))
			return "a name is made of A-Z a-z 0-9 . _ / - and %i %p %r %d";
		rules_skip(&rest, percent ? 2 : 1);
	}
	return shortest > GPUSHARE_NAME_MAX ? "the name is longer than 255 bytes" : NULL;
}

_Static_assert(GPUSHARE_NAME_MAX == 255, "template_fault() says 255");

/* Cut the bytes up to `byte`, or to the end, off `rest` into `out`. `rest` skips `byte`, too.
 * Return true if `byte` was found. */
static bool cut(struct rules_part *rest, char byte, struct rules_part *out)
{
	const char *found = memchr(rest->from, byte, rest->length);

	*out = (struct rules_part){rest->from, found ? (size_t)(found - rest->from) : rest->length};
	rules_skip(rest, out->length + (found ? 1 : 0));
	return found != NULL;
}

static bool has_blank(const struct rules_part *part)
{
	for (size_t i = 0; i < part->length; i++)
		if (strchr(" \t\n\v\f\r", part->from[i]))
			return true;
	return false;
}

static bool is_managed(enum rules_api api)
{
	return api == RULES_API_NONE || api == RULES_API_cuMemAllocManaged ||
	       api == RULES_API_cudaMallocManaged;
}

static bool parse_rule(const struct rules_parser *parser, struct rules_part text, struct rule *rule)
{
	const struct rules_part whole = text;
	struct rules_match *given = &rule->given;
	struct rules_part piece;
	unsigned int seen = 0;
	bool more = cut(&text, ':', &piece);
	const char *fault = has_blank(&piece) ? "rules can't hold blanks" : template_fault(piece);

	if (fault)
		return rules_fail(parser, piece, "%s", fault);
	*rule = (struct rule){.text = whole,
			      .template = piece,
			      .repeats = memmem(piece.from, piece.length, "%i", 2),
			      .nth = {1, UINT64_MAX},
			      .size = {0, UINT64_MAX},
			      .device = -1};
	while (more) {
		more = cut(&text, ':', &piece);
		if (piece.length == 0)
			return rules_fail(parser, piece, "an empty option");
		if (has_blank(&piece))
			return rules_fail(parser, piece, "rules can't hold blanks");
		if (!rules_parse_option(parser, piece, &seen, rule))
			return false;
	}
	if (rule->keeping.from && !(given->flags & GPUSHARE_FLAG_KEEP))
		return rules_fail(parser, rule->keeping, "this option needs \"keep\"");
	if (given->unified && !is_managed(rule->api))
		return rules_fail(parser, whole,
				  "\"unified\" is for managed memory (cudaMallocManaged) only");
	if (given->unified && rule->api == RULES_API_NONE)
		rule->api = RULES_API_cuMemAllocManaged;
	given->vmm |= given->flags || given->unified;
	return true;
}

static bool parse_all(const struct rules_parser *parser, struct rules *rules)
{
	struct rules_part rest = parser->text, piece;
	bool more = true;

	while (more) {
		more = cut(&rest, ',', &piece);
		if (piece.length == 0)
			return rules_fail(parser, piece,
					  more ? "an empty rule"
					       : "nothing follows the last comma");
		if (!parse_rule(parser, piece, &rules->rule[rules->count++]))
			return false;
	}
	return true;
}

/* Allocate room for as many rules as the text can hold, and copy the text. */
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
	struct rules_parser parser = {
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
	parser.text = (struct rules_part){rules->text, strlen(rules->text)};
	if (!parse_all(&parser, rules))
		return rules_free(rules);
	return rules;
}
