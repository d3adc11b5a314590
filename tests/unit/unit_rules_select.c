/* SPDX-License-Identifier: MIT */
/* Rules: api=, from=, and what can be asked of them without a lock. */
#include "unit.h"

#include <locale.h>
#include <stdio.h>

#include "unit_rules.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static bool matches(enum rules_kind kind, const char *text, const struct rules_allocation *what)
{
	struct rules *rules = parsed(kind, text);
	struct rules_match match;
	bool matched = rules_match(rules, what, &process, &match);

	rules_free(rules);
	return matched;
}

static const struct api {
	const char *name, *driver_name;
	enum rules_api api, driver;
} apis[] = {
#define A(name, driver) {#name, #driver, RULES_API_##name, RULES_API_##driver},
    RULES_APIS(A)
#undef A
};

static void assert_holds(const struct api *rule, const struct rules_allocation *what, bool holds)
{
	char text[64];
	struct rules *rules;

	snprintf(text, sizeof(text), "w:api=%s", rule->name);
	for (int kind = RULES_NAME; kind <= RULES_ATTACH; kind++)
		if (matches((enum rules_kind)kind, text, what) != holds)
			fail_msg("%s: driver %d, runtime %d", text, what->driver, what->runtime);
	rules = parsed(RULES_NAME, text);
	assert_int_equal(rules_concern(rules, what), holds);
	rules_free(rules);
}

static void api_holds_for_the_driver_call_and_for_the_runtime_call_around_it(void **state)
{
	for (const struct api *rule = apis; rule < apis + COUNT(apis); rule++) {
		for (const struct api *call = apis; call < apis + COUNT(apis); call++) {
			struct rules_allocation what = {.size = 1, .driver = call->driver};
			bool ends_in = strcmp(rule->name, call->driver_name) == 0;

			/* of a static runtime nothing is seen but the driver call */
			assert_holds(rule, &what, ends_in);
			if (call->api != call->driver) {
				what.runtime = call->api;
				assert_holds(rule, &what, ends_in || rule == call);
			}
		}
		assert_holds(rule, &(struct rules_allocation){.size = 1}, false);
	}
}

static const struct {
	const char *glob, *path;
	bool holds;
} globs[] = {
    {"app", "./app", true},
    {"app", "app", true},
    {"app", "/home/u/app", true},
    {"app", "/home/app/other", false},
    {"app", "/home/u/app2", false},
    {"app", "/home/u/myapp", false},
    {"App", "/home/u/app", false},
    {"libtorch_cuda.so", "/usr/lib/python3/torch/lib/libtorch_cuda.so", true},
    {"libtorch_cuda.so", "/usr/lib/libtorch_cuda.so.2", false},
    {"libx*", "/lib/libxyz.so.1", true},
    {"libx*", "/libx/other.so", false},
    {"*.so*", "/lib/a.so.1", true},
    {"*", "/lib/a", true},
    {"*", "/lib/.hidden", true},
    {"*", NULL, false},
    {"*", "", false},
    {"?pp", "/app", true},
    {"?pp", "/pp", false},
    {"[ab]pp", "/bpp", true},
    {"[!ab]pp", "/bpp", false},
    {"[0-9]", "/7", true},
    {"[", "/[", true},
    {"\\*", "/*", true},
    {"\\*", "/a", false},
    {"app=1", "/app=1", true},
    {"w%i", "/w%i", true},
    {"caf\xc3\xa9", "/bin/caf\xc3\xa9", true},
    {"*.so", "/lib/\xff\xfe.so", true},
    /* with a slash: all of the path, whose slashes a star takes too */
    {"/opt/*", "/opt/a/b/c.so", true},
    {"/opt/*", "/usr/opt/c.so", false},
    {"*/torch/lib/*", "/usr/lib/python3/torch/lib/libc10.so", true},
    {"/app", "/home/app", false},
    {"*/app", "/home/app", true},
    {"./app", "./app", true},
    {"./app", "/home/app", false},
    {"/", "/home/app", false},
};

static void from_is_a_glob_over_the_callers_file(void **state)
{
	static const char *const locales[] = {"C", "C.UTF-8"};

	for (size_t i = 0; i < COUNT(globs) * COUNT(locales); i++) {
		const char *path = globs[i / 2].path;
		struct rules_allocation what = {.size = 1, .from = path};
		char text[128];

		assert_non_null(setlocale(LC_ALL, locales[i % 2]));
		for (int kind = RULES_NAME; kind <= RULES_ATTACH; kind++) {
			/* a glob in the middle ends where the next option starts */
			snprintf(text, sizeof(text), "v:size=9,w:from=%s:size=1%s",
				 globs[i / 2].glob, kind == RULES_ATTACH ? ":must" : "");
			if (matches((enum rules_kind)kind, text, &what) != globs[i / 2].holds)
				fail_msg("%s: %s in %s", text, path, locales[i % 2]);
			snprintf(text, sizeof(text), "w:from=%s", globs[i / 2].glob);
			if (matches((enum rules_kind)kind, text, &what) != globs[i / 2].holds)
				fail_msg("%s: %s in %s", text, path, locales[i % 2]);
		}
	}
	setlocale(LC_ALL, "C");
}

/* Allocations by a letter each; from a program, a library and nobody knows whom. */
static struct rules_allocation by_letter(char letter)
{
	switch (letter) {
	case 'm':
		return (struct rules_allocation){.size = 1,
						 .driver = RULES_API_cuMemAlloc,
						 .runtime = RULES_API_cudaMalloc,
						 .from = "./app"};
	case 'a':
		return (struct rules_allocation){.size = 1,
						 .driver = RULES_API_cuMemAllocAsync,
						 .runtime = RULES_API_cudaMallocAsync,
						 .from = "/lib/libtorch_cuda.so"};
	default:
		return (struct rules_allocation){.size = 1, .driver = RULES_API_cuMemAlloc};
	}
}

static const struct {
	const char *rules, *letters, *names;
} sequences[] = {
    {"w:api=cuMemAlloc", "amm", "- w -"},
    {"w%i:api=cudaMalloc", "mamu", "w0 - w1 -"},
    {"w:api=cudaMallocAsync:nth=2", "amma", "- - - w"},
    {"w%i:api=cuMemAlloc:nth=2-3", "mamum", "- - w0 w1 -"},
    {"w:from=app:nth=2", "muamm", "- - - w -"},
    {"w%i:from=libtorch_cuda.so:nth=2-3", "amaaa", "- - w0 w1 -"},
    {"w:from=app:api=cudaMallocAsync", "mau", "- - -"},
    {"t%i:from=libtorch*,rest%i", "muaam", "rest0 rest1 t0 t1 rest2"},
    {"%i.%p.%r.%d:api=cuMemAllocAsync:device=0:size=1-", "ma", "- 0.4711.3.0"},
    /* counted where another rule takes it, and only where its own selectors hold */
    {"first,w:from=app:nth=2", "mam", "first - w"},
    {"first,w:api=cuMemAllocAsync:nth=1", "am", "first -"},
};

static void nth_counts_where_api_and_from_hold(void **state)
{
	for (size_t i = 0; i < COUNT(sequences); i++) {
		struct rules *rules = parsed(RULES_NAME, sequences[i].rules);
		char names[128] = "";

		for (const char *letter = sequences[i].letters; *letter; letter++) {
			struct rules_allocation what = by_letter(*letter);
			struct rules_match match = {.name = "-"};

			rules_match(rules, &what, &process, &match);
			strcat(strcat(names, *names ? " " : ""), match.name);
		}
		if (strcmp(names, sequences[i].names) != 0)
			fail_msg("%s: %s: got %s", sequences[i].rules, sequences[i].letters, names);
		rules_free(rules);
	}
}

static void concern_looks_at_size_and_api_of_rules_that_are_not_spent(void **state)
{
	static const struct {
		const char *rules;
		uint64_t size;
		enum rules_api driver, runtime;
		bool concern;
	} rows[] = {
	    {"w", 1, RULES_API_cuMemAlloc, 0, true},
	    {"w", 0, 0, 0, true},
	    {"w:size=2-3", 1, 0, 0, false},
	    {"w:size=2-3", 3, 0, 0, true},
	    {"w:size=2-3,v:size=9", 9, 0, 0, true},
	    {"w:device=7:from=nobody:nth=99", 1, 0, 0, true},
	    {"w:api=cuMemAlloc", 1, RULES_API_cuMemAlloc, RULES_API_cudaMalloc, true},
	    {"w:api=cudaMalloc", 1, RULES_API_cuMemAlloc, RULES_API_cudaMalloc, true},
	    {"w:api=cudaMalloc", 1, RULES_API_cuMemAlloc, 0, false},
	    {"w:api=cudaMalloc,v:api=cuMemCreate", 1, RULES_API_cuMemCreate, 0, true},
	    {"w:api=cuMemCreate:size=2", 1, RULES_API_cuMemCreate, 0, false},
	    {"w:api=cuMemCreate:size=2,v:api=cuMemAlloc", 2, RULES_API_cuMemAlloc, 0, true},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rules_allocation what = {
		    .size = rows[i].size, .driver = rows[i].driver, .runtime = rows[i].runtime};
		struct rules *rules = parsed(RULES_NAME, rows[i].rules);
		struct rules_match match;

		if (rules_concern(rules, &what) != rows[i].concern)
			fail_msg("%s: row %zu", rows[i].rules, i);
		/* a rule that is spent concerns nothing any more, until its match is returned */
		if (rules_match(rules, &what, &process, &match)) {
			assert_false(rules_concern(rules, &what));
			rules_return(rules, &what, &match);
			assert_true(rules_concern(rules, &what));
		}
		rules_free(rules);
	}
	assert_false(rules_concern(NULL, &(struct rules_allocation){.size = 1}));
}

#define MANY 2000

static void of_many_rules_each_takes_its_own(void **state)
{
	char *text = calloc(MANY, 64), *end = text;
	struct rules *rules;

	assert_non_null(text);
	for (int i = 0; i < MANY; i++)
		end += sprintf(end, "%sn%d:from=lib%d.so:size=%d", i ? "," : "", i, i, i / 2 + 1);
	rules = parsed(RULES_NAME, text);
	free(text); /* nothing points into it */
	assert_false(rules_concern(rules, &(struct rules_allocation){.size = MANY}));
	for (int i = MANY - 1; i >= 0; i--) {
		char path[32], name[32];
		struct rules_allocation what = {.size = (uint64_t)i / 2 + 1, .from = path};
		struct rules_match match;

		snprintf(path, sizeof(path), "/lib/lib%d.so", i);
		snprintf(name, sizeof(name), "n%d", i);
		assert_true(rules_alive(rules));
		assert_true(rules_concern(rules, &what));
		assert_true(rules_match(rules, &what, &process, &match));
		assert_string_equal(match.name, name);
		assert_int_equal(match.rule, i);
		assert_false(rules_match(rules, &what, &process, &match));
	}
	assert_false(rules_alive(rules));
	rules_free(rules);
}

UNIT_MAIN(UNIT(api_holds_for_the_driver_call_and_for_the_runtime_call_around_it),
	  UNIT(from_is_a_glob_over_the_callers_file), UNIT(nth_counts_where_api_and_from_hold),
	  UNIT(concern_looks_at_size_and_api_of_rules_that_are_not_spent),
	  UNIT(of_many_rules_each_takes_its_own))
