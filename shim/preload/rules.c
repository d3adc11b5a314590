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

/* Write the text that replaces %<letter> to `to`. False: the rank, which comes from the
 * environment, is not a number. */
static bool expand(char letter, const struct rule *rule, const struct rules_allocation *allocation,
		   const struct rules_process *process, char to[24])
{
	const char *rank = process->rank ? process->rank : "0";
	size_t digits = strspn(rank, "0123456789");

	if (letter == 'i')
		snprintf(to, 24, "%" PRIu64, rule->next);
	else if (letter == 'p')
		snprintf(to, 24, "%d", process->pid);
	else if (letter == 'd')
		snprintf(to, 24, "%d", allocation->device);
	else if (digits == 0 || digits >= 24 || rank[digits] != '\0')
		return false;
	else
		memcpy(to, rank, digits + 1);
	return true;
}

static bool render(const struct rule *rule, const struct rules_allocation *allocation,
		   const struct rules_process *process, char name[GPUSHARE_NAME_MAX + 1])
{
	const char *at = rule->template.from, *end = at + rule->template.length;
	size_t used = 0;

	for (; at < end; at++) {
		char text[24] = {*at};
		size_t length;

		if (*at == '%' && !expand(*++at, rule, allocation, process, text))
			return false;
		length = strlen(text);
		if (length > GPUSHARE_NAME_MAX - used)
			return false;
		memcpy(name + used, text, length + 1);
		used += length;
	}
	return name_is_valid(name);
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

/* Test only size= and api=. The device and the caller's path may be unknown at this point. */
static bool concerns(const struct rule *rule, const struct rules_allocation *allocation)
{
	return in_span(allocation->size, &rule->size) &&
	       (rule->api == RULES_API_NONE || rule->api == allocation->driver ||
		rule->api == allocation->runtime);
}

/* Test all selectors but nth=. */
static bool selects(const struct rule *rule, const struct rules_allocation *allocation)
{
	return concerns(rule, allocation) &&
	       (rule->device < 0 || rule->device == allocation->device) &&
	       (!rule->glob || is_from(rule->glob, allocation->from));
}

/* A rule without %i takes one allocation. A rule with %i takes as many as nth= has numbers. `taken`
 * is tested too, because rules_uncount() lowers `seen`. */
static bool is_spent(const struct rule *rule)
{
	uint64_t most = rule->repeats ? rule->nth.to - rule->nth.from + 1 : 1;

	return rule->taken >= most || rule->seen >= rule->nth.to;
}

/* If all selectors but nth= match, count the allocation. Return true if the rule can take it. */
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
	for (size_t i = 0; rules && i < rules->count; i++)
		if (selects(&rules->rule[i], allocation) && !count_past(&rules->rule[i]))
			return i;
	return RULES_NONE;
}

static bool take(struct rule *rule, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out)
{
	char name[GPUSHARE_NAME_MAX + 1];

	if (!render(rule, allocation, process, name))
		return false;
	*out = rule->given;
	strcpy(out->name, name);
	rule->taken++;
	out->index = rule->next++;
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
