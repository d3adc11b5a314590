/* SPDX-License-Identifier: MIT */
#include "rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "rules_internal.h"

struct values {
	char index[24], pid[24], rank[24], device[24];
};

struct name {
	char text[GPUSHARE_NAME_MAX + 1];
	size_t length;
};

struct rules *rules_free(struct rules *rules)
{
	if (rules)
		free(rules->text);
	free(rules);
	return NULL;
}

/* The rank comes from the environment: digits or nothing. */
static bool copy_rank(char to[24], const char *rank)
{
	size_t digits;

	if (!rank)
		rank = "0";
	digits = strspn(rank, "0123456789");
	if (digits == 0 || digits >= 24 || rank[digits] != '\0')
		return false;
	memcpy(to, rank, digits + 1);
	return true;
}

/* Only what the template asks for may fail: a bad rank is nobody's concern without %r. */
static const char *value_of(char letter, const struct values *values)
{
	switch (letter) {
#define X(its_letter, value) \
	case its_letter: \
		return values->value;
		RULES_CONVERSIONS(X)
#undef X
	default:
		return "";
	}
}

static bool append(struct name *name, const char *text, size_t length)
{
	if (length > GPUSHARE_NAME_MAX - name->length)
		return false;
	memcpy(name->text + name->length, text, length);
	name->length += length;
	name->text[name->length] = '\0';
	return true;
}

static bool render(const struct rule *rule, const struct values *values, struct name *name)
{
	*name = (struct name){0};
	for (size_t i = 0; i < rule->template_length; i++) {
		const char *text = rule->template + i;
		size_t length = 1;

		if (*text == '%') {
			text = value_of(rule->template[++i], values);
			length = strlen(text);
			if (length == 0) /* a rank that is no number */
				return false;
		}
		if (!append(name, text, length))
			return false;
	}
	return name_is_valid(name->text);
}

static bool in_span(uint64_t number, const struct rules_span *span)
{
	return number >= span->from && number <= span->to;
}

static bool is_spent(const struct rule *rule)
{
	return (rule->taken > 0 && !rule->repeats) || rule->seen >= rule->nth.to;
}

/* Counts the allocation; true if the rule wants it. */
static bool select_and_count(struct rule *rule, const struct rules_allocation *allocation)
{
	bool was_spent = is_spent(rule);

	if (!in_span(allocation->size, &rule->size))
		return false;
	if (rule->device >= 0 && rule->device != allocation->device)
		return false;
	rule->seen++;
	return !was_spent && in_span(rule->seen, &rule->nth);
}

static bool take(struct rule *rule, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out)
{
	struct values values = {0};
	struct name name;

	snprintf(values.index, sizeof(values.index), "%" PRIu64, rule->taken);
	snprintf(values.pid, sizeof(values.pid), "%d", process->pid);
	snprintf(values.device, sizeof(values.device), "%d", allocation->device);
	if (!copy_rank(values.rank, process->rank))
		values.rank[0] = '\0';
	if (!render(rule, &values, &name))
		return false;
	rule->taken++;
	memcpy(out->name, name.text, name.length + 1);
	out->wait_ms = rule->wait_ms;
	out->must = rule->must;
	return true;
}

bool rules_match(struct rules *rules, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out)
{
	bool taken = false;

	for (size_t i = 0; rules && i < rules->count; i++) {
		struct rule *rule = &rules->rule[i];

		if (select_and_count(rule, allocation) && !taken)
			taken = take(rule, allocation, process, out);
	}
	return taken;
}

bool rules_alive(const struct rules *rules)
{
	for (size_t i = 0; rules && i < rules->count; i++)
		if (!is_spent(&rules->rule[i]))
			return true;
	return false;
}
