/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <string.h>

#include "gpushare.h"
#include "protocol.h"
#include "rules_internal.h"

static const char too_large[] = "the number is too large";
static const char backwards[] = "the range ends before it starts";

static bool is(const struct rules_part *part, const char *text)
{
	return strlen(text) == part->length && memcmp(text, part->from, part->length) == 0;
}

static bool starts_with(const struct rules_part *part, char byte)
{
	return part->length > 0 && *part->from == byte;
}

static bool starts_with_digit(const struct rules_part *part)
{
	return part->length > 0 && *part->from >= '0' && *part->from <= '9';
}

static const char *take_number(struct rules_part *part, uint64_t *out, const char *wants)
{
	uint64_t number = 0;

	if (!starts_with_digit(part))
		return wants;
	for (; starts_with_digit(part); rules_skip(part, 1)) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*part->from - '0'), &number))
			return too_large;
	}
	*out = number;
	return NULL;
}

static const char *take_bytes(struct rules_part *part, uint64_t *out, const char *wants)
{
	const char *end;

	if (!starts_with_digit(part))
		return wants;
	/* text_size() ends within the part, because `:`, `,` or NUL follows the part. */
	end = text_size(part->from, out);
	if (!end)
		return too_large;
	rules_skip(part, (size_t)(end - part->from));
	return NULL;
}

typedef const char *take_call(struct rules_part *part, uint64_t *out, const char *wants);

/* Parse N or A-B; also A- if `may_be_open`. */
static const char *take_span(struct rules_part value, take_call *take, bool may_be_open,
			     struct rules_span *out, const char *wants)
{
	struct rules_span span = {0};
	const char *fault = take(&value, &span.from, wants);

	if (fault)
		return fault;
	span.to = span.from;
	if (starts_with(&value, '-')) {
		rules_skip(&value, 1);
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

/* Parse a value that is one number, at most `most`, and nothing else. */
static const char *take_whole(struct rules_part value, uint64_t most, uint64_t *out,
			      const char *wants)
{
	const char *fault = take_number(&value, out, wants);

	if (fault || value.length > 0)
		return fault ? fault : wants;
	return *out > most ? too_large : NULL;
}

static const char *set_nth(struct rule *rule, struct rules_part value, const char *wants)
{
	const char *fault = take_span(value, take_number, false, &rule->nth, wants);

	return !fault && rule->nth.from == 0 ? wants : fault;
}

static const char *set_size(struct rule *rule, struct rules_part value, const char *wants)
{
	const char *fault = take_span(value, take_bytes, true, &rule->size, wants);

	return !fault && rule->size.to == 0 ? "no allocation has 0 bytes" : fault;
}

static const char *set_device(struct rule *rule, struct rules_part value, const char *wants)
{
	uint64_t number = 0;
	const char *fault = take_whole(value, INT_MAX, &number, wants);

	rule->device = (int)number;
	return fault;
}

static const char *set_api(struct rule *rule, struct rules_part value, const char *wants)
{
	static const char *const names[] = {
#define A(name, driver) [RULES_API_##name] = #name,
	    RULES_APIS(A)
#undef A
	};

	for (size_t i = RULES_API_NONE + 1; i < sizeof(names) / sizeof(*names); i++) {
		if (is(&value, names[i])) {
			rule->api = (enum rules_api)i;
			return NULL;
		}
	}
	return wants;
}

static const char *set_from(struct rule *rule, struct rules_part value, const char *wants)
{
	if (value.length == 0)
		return wants;
	rule->glob = strndup(value.from, value.length);
	return rule->glob ? NULL : "out of memory";
}

/* Round fractions of a millisecond up, so that a wait above 0 never becomes 0. */
static const char *set_wait(struct rule *rule, struct rules_part value, const char *wants)
{
	uint64_t ms = 0, part_ms = 0, scale = 100;
	const char *fault = take_number(&value, &ms, wants);
	bool more = false;

	if (fault)
		return fault;
	if (ms > UINT_MAX / 1000 - 1)
		return too_large;
	if (starts_with(&value, '.')) {
		rules_skip(&value, 1);
		if (!starts_with_digit(&value))
			return wants;
		for (; starts_with_digit(&value); rules_skip(&value, 1), scale /= 10) {
			part_ms += scale * (uint64_t)(*value.from - '0');
			more |= scale == 0 && *value.from != '0';
		}
	}
	if (value.length > 0)
		return wants;
	rule->given.wait_ms = (unsigned int)(ms * 1000 + part_ms + more);
	return NULL;
}

/* An option without a value. */
#define FLAG(name, set) \
	static const char *set_##name(struct rule *rule, struct rules_part value, \
				      const char *wants) \
	{ \
		if (value.from) \
			return wants; \
		set; \
		return NULL; \
	}
FLAG(must, rule->given.must = true)
FLAG(keep, rule->given.flags |= GPUSHARE_FLAG_KEEP)
FLAG(readonly, rule->given.flags |= GPUSHARE_FLAG_READONLY)
FLAG(vmm, rule->given.vmm = true)
FLAG(adopt, rule->given.adopt = true)
FLAG(unified, rule->given.unified = true)
#undef FLAG

static const char *set_ttl(struct rule *rule, struct rules_part value, const char *wants)
{
	uint64_t seconds = 0;
	const char *fault = take_whole(value, UINT32_MAX, &seconds, wants);

	rule->given.ttl_s = (uint32_t)seconds;
	return !fault && seconds == 0 ? wants : fault;
}

static const char *set_mode(struct rule *rule, struct rules_part value, const char *wants)
{
	uint32_t mode = 0;

	if (value.length == 0 || value.length > 4)
		return wants;
	for (; value.length > 0; rules_skip(&value, 1)) {
		if (*value.from < '0' || *value.from > '7')
			return wants;
		mode = mode * 8 + (uint32_t)(*value.from - '0');
	}
	if (mode == 0 || mode & ~0666u)
		return wants;
	rule->given.mode = mode;
	return NULL;
}

static const char *set_group(struct rule *rule, struct rules_part value, const char *wants)
{
	if (value.length == 0 || value.length > RULES_GROUP_MAX)
		return wants;
	memcpy(rule->given.group, value.from, value.length);
	return NULL;
}

typedef const char *set_call(struct rule *rule, struct rules_part value, const char *wants);

#define A(name, driver) " " #name
static const char api_wants[] = "api wants one of" RULES_APIS(A);
#undef A

/* X(kind, name, set, wants): an option of the grammar. `set` returns NULL or an error sentence,
 * mostly `wants`. Kinds: ATTACHING is for GPUSHARE_ATTACH only, NAMING for GPUSHARE_NAME only.
 * KEEPING is like NAMING, but the rule must also say keep. */
#define OPTIONS(X) \
	X(ANYWHERE, nth, set_nth, "nth wants N or A-B, counted from 1") \
	X(ANYWHERE, size, set_size, \
	  "size wants N, N-M or N-, in bytes or with K M G T Ki Mi Gi Ti") \
	X(ANYWHERE, device, set_device, "device wants a CUDA device number, counted from 0") \
	X(ANYWHERE, api, set_api, api_wants) \
	X(ANYWHERE, from, set_from, "from wants a file name or path, in which * ? [ ] are wild") \
	X(ATTACHING, wait, set_wait, "wait wants seconds, such as 30 or 0.5") \
	X(ATTACHING, must, set_must, "must takes no value") \
	X(NAMING, keep, set_keep, "keep takes no value") \
	X(KEEPING, ttl, set_ttl, "ttl wants whole seconds from 1, such as 3600") \
	X(ANYWHERE, readonly, set_readonly, "readonly takes no value") \
	X(NAMING, vmm, set_vmm, "vmm takes no value") \
	X(NAMING, map, set_vmm, "map takes no value") \
	X(KEEPING, adopt, set_adopt, "adopt takes no value") \
	X(NAMING, unified, set_unified, "unified takes no value") \
	X(NAMING, mode, set_mode, "mode wants octal digits of read and write bits, such as 640") \
	X(NAMING, group, set_group, "group wants the name or number of a group")

static const struct option {
	enum { ANYWHERE, ATTACHING, NAMING, KEEPING } kind;
	const char *name;
	set_call *set;
	const char *wants;
} options[] = {
#define X(kind, name, set, wants) {kind, #name, set, wants},
    OPTIONS(X)
#undef X
};

#define X(kind, name, set, wants) " " #name
static const char unknown[] = "unknown option, none of" OPTIONS(X);
#undef X

#define OPTION_COUNT (sizeof(options) / sizeof(*options))

static const struct option *find_option(struct rules_part name)
{
	for (const struct option *option = options; option < options + OPTION_COUNT; option++)
		if (is(&name, option->name))
			return option;
	return NULL;
}

bool rules_parse_option(const struct rules_parser *parser, struct rules_part text,
			unsigned int *seen, struct rule *rule)
{
	const char *equals = memchr(text.from, '=', text.length);
	struct rules_part name = text, value = {0};
	const struct option *option;
	const char *fault;

	if (equals) {
		name.length = (size_t)(equals - text.from);
		value = (struct rules_part){equals + 1, text.length - name.length - 1};
	}
	option = find_option(name);
	if (!option)
		return rules_fail(parser, text, "%s", unknown);
	if (option->kind == ATTACHING && parser->kind != RULES_ATTACH)
		return rules_fail(parser, text, "option \"%s\" is for GPUSHARE_ATTACH only",
				  option->name);
	if ((option->kind == NAMING || option->kind == KEEPING) && parser->kind != RULES_NAME)
		return rules_fail(parser, text, "option \"%s\" is for GPUSHARE_NAME only",
				  option->name);
	if (option->kind == KEEPING)
		rule->keeping = text;
	if (*seen & 1u << (option - options))
		return rules_fail(parser, text, "option \"%s\" is given twice", option->name);
	*seen |= 1u << (option - options);
	fault = option->set(rule, value, option->wants);
	return fault ? rules_fail(parser, text, "%s", fault) : true;
}
