/* SPDX-License-Identifier: MIT */
#include "verbs/pattern.h"

#include <fnmatch.h>
#include <string.h>

struct pattern pattern_begin(const char *text)
{
	return (struct pattern){
	    .text = text,
	    .prefix = strcspn(text, "*?[]\\"),
	    .plain = !strpbrk(text, "[]\\"),
	};
}

const struct entry *pattern_seek(const struct pattern *pattern, const struct store *store,
				 const char *after)
{
	char prefix[GPUSHARE_NAME_MAX + 1];
	const struct entry *same;

	if (!pattern->prefix || strncmp(after, pattern->text, pattern->prefix) >= 0)
		return store_after(store, after);
	memcpy(prefix, pattern->text, pattern->prefix);
	prefix[pattern->prefix] = '\0';
	same = store_find(store, prefix);
	return same ? same : store_after(store, prefix);
}

bool pattern_is_past(const struct pattern *pattern, const char *name)
{
	return strncmp(name, pattern->text, pattern->prefix) > 0;
}

/* The match of the latest '*' grows until the rest fits; earlier ones need no second try. */
static bool fits(const char *text, const char *name, size_t *work)
{
	const char *star = NULL, *from = name;

	for (; *name; ++*work) {
		if (*text == '*') {
			star = ++text;
			from = name;
		} else if (*text && (*text == '?' || *text == *name)) {
			text++;
			name++;
		} else if (star) {
			text = star;
			name = ++from;
		} else {
			return false;
		}
	}
	return !text[strspn(text, "*")];
}

bool pattern_fits(const struct pattern *pattern, const char *name, size_t *work)
{
	if (!*pattern->text)
		return true;
	if (pattern->plain)
		return fits(pattern->text, name, work);
	*work += strlen(pattern->text) * strlen(name);
	return !fnmatch(pattern->text, name, 0);
}
