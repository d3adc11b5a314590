/* SPDX-License-Identifier: MIT */
#include "rules.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdatomic.h>
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
	if (!rules)
		return NULL;
	for (size_t i = 0; i < rules->count; i++)
		free(rules->rule[i].glob);
	free(rules->text);
	free(rules);
	return NULL;
}

/* The rank comes from the environment, so accept digits only. */
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

/* If the rank is not a number, `values->rank` is "": only a template with %r then fails, in
 * render(). */
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
	for (size_t i = 0; i < rule->template.length; i++) {
		const char *text = rule->template.from + i;
		size_t length = 1;

		if (*text == '%') {
			text = value_of(rule->template.from[++i], values);
			length = strlen(text);
			if (length == 0) /* the rank is not a number */
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

/* A glob without a slash is matched with the file name only, in any directory. */
static bool is_from(const char *glob, const char *path)
{
	const char *slash;

	if (!path || !*path)
		return false;
	slash = strchr(glob, '/') ? NULL : strrchr(path, '/');
	return fnmatch(glob, slash ? slash + 1 : path, 0) == 0;
}

/* The selectors that need neither a lock nor the caller's path. */
static bool concerns(const struct rule *rule, const struct rules_allocation *allocation)
{
	return in_span(allocation->size, &rule->size) &&
	       (rule->api == RULES_API_NONE || rule->api == allocation->driver ||
		rule->api == allocation->runtime);
}

/* All selectors but nth. */
static bool selects(const struct rule *rule, const struct rules_allocation *allocation)
{
	return concerns(rule, allocation) &&
	       (rule->device < 0 || rule->device == allocation->device) &&
	       (!rule->glob || is_from(rule->glob, allocation->from));
}

/* A rule without %i takes one allocation. A rule with %i takes as many as nth has numbers, even if
 * rules_uncount() has lowered `seen`. */
static bool is_spent(const struct rule *rule)
{
	uint64_t most = rule->repeats ? rule->nth.to - rule->nth.from + 1 : 1;

	return rule->taken >= most || rule->seen >= rule->nth.to;
}

/* Count the allocation at this rule. Return true if the rule can take it. */
static bool select_and_count(struct rule *rule, const struct rules_allocation *allocation)
{
	bool was_spent = is_spent(rule);

	if (!selects(rule, allocation))
		return false;
	return in_span(++rule->seen, &rule->nth) && !was_spent;
}

/* Count the allocation without a lock. If the rule may take it, return false without counting. */
static bool count_past(struct rule *rule)
{
	uint64_t seen = rule->seen;

	do {
		if (seen + 1 >= rule->nth.from && !is_spent(rule))
			return false;
	} while (!atomic_compare_exchange_weak(&rule->seen, &seen, seen + 1));
	return true;
}

size_t rules_pass(struct rules *rules, const struct rules_allocation *allocation)
{
	size_t i;

	for (i = 0; rules && i < rules->count; i++)
		if (selects(&rules->rule[i], allocation) && !count_past(&rules->rule[i]))
			break;
	return i;
}

bool rules_passed(const struct rules *rules, size_t asked)
{
	return !rules || asked == rules->count;
}

static bool take(struct rule *rule, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out)
{
	struct values values = {0};
	struct name name;

	snprintf(values.index, sizeof(values.index), "%" PRIu64, rule->next);
	snprintf(values.pid, sizeof(values.pid), "%d", process->pid);
	snprintf(values.device, sizeof(values.device), "%d", allocation->device);
	if (!copy_rank(values.rank, process->rank))
		values.rank[0] = '\0';
	if (!render(rule, &values, &name))
		return false;
	rule->taken++;
	out->index = rule->next++;
	memcpy(out->name, name.text, name.length + 1);
	out->wait_ms = rule->wait_ms;
	out->must = rule->must;
	out->flags = rule->flags;
	out->ttl_s = rule->ttl_s;
	out->mode = rule->mode;
	if (rule->group.length)
		memcpy(out->group, rule->group.from, rule->group.length);
	out->group[rule->group.length] = '\0';
	out->adopt = rule->adopt;
	out->unified = rule->unified;
	out->vmm = rule->vmm || rule->flags || rule->unified;
	return true;
}

bool rules_match(struct rules *rules, size_t first, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out)
{
	bool taken = false;

	for (size_t i = first; rules && i < rules->count; i++) {
		struct rule *rule = &rules->rule[i];

		if (select_and_count(rule, allocation) && !taken) {
			taken = take(rule, allocation, process, out);
			if (taken)
				out->rule = i;
		}
	}
	return taken;
}

/* If `index` is the last one given out, the next match gets it again. An older index stays unused:
 * indices only ever increase. */
void rules_return(struct rules *rules, size_t rule, uint64_t index)
{
	struct rule *its = &rules->rule[rule];

	if (its->taken > 0)
		its->taken--;
	if (index + 1 == its->next)
		its->next--;
}

void rules_uncount(struct rules *rules, const struct rules_allocation *allocation)
{
	for (size_t i = 0; rules && i < rules->count; i++) {
		struct rule *rule = &rules->rule[i];

		if (selects(rule, allocation) && rule->seen > 0)
			rule->seen--;
	}
}

bool rules_concern(const struct rules *rules, const struct rules_allocation *allocation)
{
	for (size_t i = 0; rules && i < rules->count; i++)
		if (concerns(&rules->rule[i], allocation) && !is_spent(&rules->rule[i]))
			return true;
	return false;
}

const char *rules_unmatched(const struct rules *rules, size_t at, size_t *length)
{
	const struct rule *rule = rules && at < rules->count ? &rules->rule[at] : NULL;

	if (!rule)
		return NULL;
	*length = rule->taken ? 0 : rule->text.length;
	return rule->taken ? "" : rule->text.from;
}

bool rules_alive(const struct rules *rules)
{
	for (size_t i = 0; rules && i < rules->count; i++)
		if (!is_spent(&rules->rule[i]))
			return true;
	return false;
}
