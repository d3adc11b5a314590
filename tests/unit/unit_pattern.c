// SPDX-License-Identifier: MIT
/* Listing by patterns must say what fnmatch(3) says of each name, whatever is left out of sight. */
#include "unit.h"

#include <fnmatch.h>

#include "verbs/pattern.h"

static const char *const names[] = {
    "-", "a", "a-", "a.b", "a/b", "aa", "aab", "ab", "ab/c", "ab/c.w", "abc", "b", "b]", "ba", "bb",
};
#define NAMES (sizeof(names) / sizeof(*names))

static const char *const patterns[] = {
    "",	      "*",	"a",	  "ab",		  "a*",	     "ab*",  "*b",    "*.w",   "a?",
    "a[ab]",  "a[ab]*", "[ab]",	  "a[b",	  "ab/c*.w", "a\\b", "a\\*",  "z*",    "A*",
    "a**b",   "*a*b*",	"?",	  "??",		  "a?*",     "*?b",  "*/?.w", "[!a]*", "*[!a]",
    "a[!/]b", "b]",	"a[]b]b", "a[[:alpha:]]", "\\",	     "a\\",
};

static struct store store;

static int fill(void **state)
{
	uint8_t handle[GPUSHARE_HANDLE_SIZE] = {0};
	record info = {0};

	store_init(&store);
	for (size_t i = 0; i < NAMES; i++) {
		strcpy(info.name, names[i * 7 % NAMES]);
		assert_non_null(store_add(&store, &info, handle));
	}
	return 0;
}

static int empty(void **state)
{
	store_finish(&store);
	return 0;
}

static bool fits(const char *pattern, const char *name)
{
	return !*pattern || !fnmatch(pattern, name, 0);
}

static void nothing_that_fits_is_left_out(void **state)
{
	size_t work = 0;

	for (size_t p = 0; p < sizeof(patterns) / sizeof(*patterns); p++) {
		const struct pattern pattern = pattern_begin(patterns[p]);

		for (size_t i = 0; i < NAMES; i++) {
			bool past = pattern_is_past(&pattern, names[i]);

			assert_int_equal(pattern_fits(&pattern, names[i], &work),
					 fits(patterns[p], names[i]));
			assert_false(past && fits(patterns[p], names[i]));
			for (size_t later = i; past && later < NAMES; later++)
				assert_false(fits(patterns[p], names[later]));
		}
	}
}

/* Its place among the names; behind them all: NULL. */
static size_t place_of(const struct entry *entry)
{
	size_t at = 0;

	while (entry && strcmp(names[at], entry->info.name) != 0)
		at++;
	return entry ? at : NAMES;
}

static void a_listing_begins_at_the_first_that_fits(void **state)
{
	for (size_t p = 0; p < sizeof(patterns) / sizeof(*patterns); p++) {
		const struct pattern pattern = pattern_begin(patterns[p]);

		for (size_t after = 0; after < NAMES; after++) {
			size_t at = place_of(pattern_seek(&pattern, &store, names[after]));

			assert_true(at > after);
			for (size_t i = after + 1; i < at && i < NAMES; i++)
				assert_false(fits(patterns[p], names[i]));
		}
		for (size_t i = 0; i < place_of(pattern_seek(&pattern, &store, "")); i++)
			assert_false(fits(patterns[p], names[i]));
	}
}

static void most_is_left_out(void **state)
{
	struct pattern pattern = pattern_begin("ab/*.w");

	assert_string_equal(pattern_seek(&pattern, &store, "")->info.name, "ab/c");
	assert_true(pattern_is_past(&pattern, "abc"));
}

UNIT_MAIN_BETWEEN(fill, empty, UNIT(nothing_that_fits_is_left_out),
		  UNIT(a_listing_begins_at_the_first_that_fits), UNIT(most_is_left_out))
