/* SPDX-License-Identifier: MIT */
/* The rules of GPUSHARE_NAME and GPUSHARE_ATTACH: what matches under which name, what a failed
 * allocation returns, and the errors for what does not parse. Random texts are left to the
 * fuzzer. */
#include "unit.h"

#include <ctype.h>
#include <locale.h>

#include "gpushare.h"
#include "preload/rules.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define X16 "xxxxxxxxxxxxxxxx"
#define X255 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 "xxxxxxxxxxxxxxx"

static const struct rules_process process = {.pid = 4711, .rank = "3"};

/* Parse rules that must be valid. */
static struct rules *parsed(enum rules_kind kind, const char *text)
{
	char error[512];
	struct rules *rules = rules_parse(kind, "GPUSHARE_NAME", text, error, sizeof(error));

	if (!rules)
		fail_msg("%s", error);
	assert_string_equal(error, "");
	return rules;
}

/* Return the name that the rules give; "" for none. */
static const char *name_of(struct rules *rules, uint64_t size, int device)
{
	static struct rules_match match;

	if (!rules_match(rules, 0, &(struct rules_allocation){.size = size, .device = device},
			 &process, &match))
		return "";
	return match.name;
}

/* The allocation has failed. The name "-": no rule had taken it. */
static void fail_match(struct rules *rules, const struct rules_allocation *allocation,
		       const struct rules_match *match)
{
	if (strcmp(match->name, "-") != 0)
		rules_return(rules, match->rule, match->index);
	rules_uncount(rules, allocation);
}

static void no_text_is_no_rules(void **state)
{
	char error[8] = "before";

	assert_null(rules_parse(RULES_NAME, "V", "", error, sizeof(error)));
	assert_string_equal(error, "");
	assert_null(rules_parse(RULES_ATTACH, "V", NULL, error, sizeof(error)));
	assert_null(rules_free(NULL));
	assert_false(rules_alive(NULL));
	assert_false(rules_match(NULL, 0, &(struct rules_allocation){.size = 1}, &process, NULL));
}

/*
 * A capital is an allocation: "A", or with its size, device and call as in "A10@1:m". The small
 * letter is that allocation's failure; followed by a dot, only its match is returned. `names` are
 * what the capitals get, "-" for none.
 */
static const struct {
	const char *rules, *script, *names;
} scripts[] = {
    {"weights", "A B2", "weights -"},
    {"weights,kv", "A B2 C3", "weights kv -"},
    {"a/b.c_D-9", "A", "a/b.c_D-9"},
    {"w%i", "A B2 C3@1", "w0 w1 w2"},
    {"w%i%i", "A B2", "w00 w11"},
    {"%p.%r.%d", "A@7 B", "4711.3.7 -"},
    {"%i", "A B", "0 1"},
    {"w:nth=2", "A B2 C3", "- w -"},
    {"w:nth=1", "A B2", "w -"},
    {"w%i:nth=2-3", "A B2 C3 D4", "- w0 w1 -"},
    {"w:nth=2-3", "A B2 C3 D4", "- w - -"},
    {"w:size=100", "A99 B101 C100 D100", "- - w -"},
    {"w%i:size=10-20", "A9 B10 C20 D21", "- w0 w1 -"},
    {"w%i:size=10-", "A9 B10 C18446744073709551615", "- w0 w1"},
    {"w%i:size=0-10", "A0 B10 C11", "w0 w1 -"},
    {"w:size=1K", "A1024 B1000", "- w"},
    {"w:size=1Ki", "A1000 B1024", "- w"},
    {"w:size=3M", "A3145728 B3000000", "- w"},
    {"w:size=3Mi", "A3000000 B3145728", "- w"},
    {"w:size=2G", "A2147483648 B2000000000", "- w"},
    {"w:size=2Gi", "A2000000000 B2147483648", "- w"},
    {"w:size=2Ti", "A2000000000000 B2199023255552", "- w"},
    {"w%i:size=1Ki-1Mi", "A1023 B1024 C1048576 D1048577", "- w0 w1 -"},
    {"w:device=1", "A B@1 C@1", "- w -"},
    {"w%i:device=0", "A B@1 C", "w0 - w1"},
    {"w:size=5:device=1:nth=2", "A5 B5@1 C4@1 D5@1 E5@1", "- - - w -"},
    /* nth also counts what another rule has taken, but only what the other selectors match */
    {"a,b:nth=2", "A B2 C3", "a b -"},
    {"a,b:nth=1", "A B2", "a -"},
    {"big:size=100-,rest%i", "A5 B100 C6 D100", "rest0 big rest1 rest2"},
    {"rest%i,big:size=100-", "A100 B100", "rest0 rest1"},
    {"a:device=1,b", "A B@1 C", "b a -"},
    {"a,a", "A B C", "a a -"},
    {"w:api=cuMemAlloc", "A:a B:m C:m", "- w -"},
    {"w%i:api=cudaMalloc", "A:m B:a C:m D:u", "w0 - w1 -"},
    {"w:api=cudaMallocAsync:nth=2", "A:a B:m C:m D:a", "- - - w"},
    {"w%i:api=cuMemAlloc:nth=2-3", "A:m B:a C:m D:u E:m", "- - w0 w1 -"},
    {"w:from=app:nth=2", "A:m B:u C:a D:m E:m", "- - - w -"},
    {"w%i:from=libtorch_cuda.so:nth=2-3", "A:a B:m C:a D:a E:a", "- - w0 w1 -"},
    {"w:from=app:api=cudaMallocAsync", "A:m B:a C:u", "- - -"},
    {"t%i:from=libtorch*,rest%i", "A:m B:u C:a D:a E:m", "rest0 rest1 t0 t1 rest2"},
    {"%i.%p.%r.%d:api=cuMemAllocAsync:device=0:size=1-", "A:m B:a", "- 0.4711.3.0"},
    /* counted even if another rule takes it, but only if the other selectors match */
    {"first,w:from=app:nth=2", "A:m B:a C:m", "first - w"},
    {"first,w:api=cuMemAllocAsync:nth=1", "A:a B:m", "first -"},
    {"w", "A a B C", "w w -"},
    {"w", "A a A a A a B", "w w w w"},
    {"w,k", "A B a C D", "w k w -"},
    {"w,k", "A B b a C D E", "w k w k -"},
    {"w,k", "A B a b C D E", "w k w k -"},
    {"w%i", "A B b C", "w0 w1 w1"},
    {"w%i", "A B a C", "w0 w1 w2"},
    {"w%i", "A B a b C", "w0 w1 w1"},
    {"w%i", "A B C c b a D", "w0 w1 w2 w0"},
    {"w%i", "A B C a b c D", "w0 w1 w2 w2"},
    {"w%i", "A B C b c D E", "w0 w1 w2 w2 w3"},
    {"w%i", "A B b C a D", "w0 w1 w1 w2"},
    {"w:nth=1", "A a B C", "w w -"},
    {"w:nth=2", "A B b C D", "- w w -"},
    {"w%i:nth=2-3", "A B C c D E", "- w0 w1 w1 -"},
    {"w%i:nth=2-3", "A B b C D E", "- w0 w0 w1 -"},
    {"w%i:nth=2-3", "A B C b D E", "- w0 w1 w2 -"},
    /* each rule whose selectors match has counted it, and no other */
    {"a,b:nth=2", "A a B C", "a a b"},
    {"a,b:nth=2", "A B a C D", "a b a -"},
    {"a:size=2,b:nth=3", "A2 a B1 C1 D1 E1", "a - - b -"},
    {"a:size=2,b:nth=2:size=1", "A1 B2 b C1 D1", "- a b -"},
    /* after the failure the Nth is one that came meanwhile: no later one gets the name */
    {"w:nth=1", "A B a C", "w - -"},
    /* an allocation that no rule took fails: nth hasn't counted it */
    {"w:nth=2", "A a B C", "- - w"},
    {"w:nth=2", "A a B b C D", "- - - w"},
    {"w%i:nth=2-3", "A a B C D E", "- - w0 w1 -"},
    {"a:size=2,b:nth=2:size=1", "A1 a B2 C1 D1", "- a - b"},
    {"w:nth=2", "A B a C", "- w -"},
    /* nth stands for one allocation, whatever was returned */
    {"big:size=2,b%i:nth=2", "A2 B1 a C1 D1", "big b0 - -"},
    {"big:size=2,b%i:nth=2-3", "A2 B1 a C1 D1", "big b0 b1 -"},
    /* returned alone, it stays counted */
    {"w%i:nth=2-3,once", "A B b. C D", "once w0 w0 -"},
    /* a failure is taken off the rules whose selectors held, and no others */
    {"any%i:nth=1-4,d:device=1:nth=2,a:api=cuMemAlloc:nth=3,f:from=lib*:nth=4",
     "A:m B:m C@1:c D@1:c d E:m F@1:c G@1:c H@1:c", "any0 any1 any2 any3 any3 d - f"},
};

/* The allocation that a script's letter stands for: a program's, a library's, an unknown one. */
static struct rules_allocation by_call(char letter)
{
	switch (letter) {
	case 'm':
		return (struct rules_allocation){.driver = RULES_API_cuMemAlloc,
						 .runtime = RULES_API_cudaMalloc,
						 .from = "./app"};
	case 'a':
		return (struct rules_allocation){.driver = RULES_API_cuMemAllocAsync,
						 .runtime = RULES_API_cudaMallocAsync,
						 .from = "/lib/libtorch_cuda.so"};
	case 'c':
		return (struct rules_allocation){.driver = RULES_API_cuMemCreate,
						 .from = "/lib/lib.so"};
	default:
		return (struct rules_allocation){.driver = RULES_API_cuMemAlloc};
	}
}

/* Read an allocation's size, device and call, all of them optional. */
static struct rules_allocation read_allocation(const char *at)
{
	char *end;
	uint64_t size = strtoull(at, &end, 10);
	int device = *end == '@' ? (int)strtol(end + 1, &end, 10) : 0;
	struct rules_allocation what = by_call(*end == ':' ? end[1] : 'u');

	what.size = isdigit(*at) ? size : 1;
	what.device = device;
	return what;
}

static void run_script(struct rules *rules, const char *script, char *names)
{
	struct rules_match matches[26];
	struct rules_allocation whats[26];

	for (const char *at = script; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		int slot = tolower(*at) - 'a';

		if (islower(*at) && at[1] == '.') {
			rules_return(rules, matches[slot].rule, matches[slot].index);
		} else if (islower(*at)) {
			fail_match(rules, &whats[slot], &matches[slot]);
		} else {
			matches[slot] = (struct rules_match){.name = "-"};
			whats[slot] = read_allocation(at + 1);
			rules_match(rules, 0, &whats[slot], &process, &matches[slot]);
			strcat(strcat(names, *names ? " " : ""), matches[slot].name);
		}
	}
}

static void allocations_get_the_names_that_the_rules_give(void **state)
{
	for (size_t i = 0; i < COUNT(scripts); i++) {
		for (int kind = RULES_NAME; kind <= RULES_ATTACH; kind++) {
			struct rules *rules = parsed((enum rules_kind)kind, scripts[i].rules);
			char names[128] = "";

			run_script(rules, scripts[i].script, names);
			if (strcmp(names, scripts[i].names) != 0)
				fail_msg("%s: %s: got %s", scripts[i].rules, scripts[i].script,
					 names);
			rules_free(rules);
		}
	}
}

/* Options of a rule, and what it returns for one byte. */
#define READONLY GPUSHARE_FLAG_READONLY
#define KEEP GPUSHARE_FLAG_KEEP
static const struct {
	enum rules_kind kind;
	const char *text;
	struct rules_match match;
} options[] = {
    {RULES_ATTACH, "w", {.must = false}},
    {RULES_ATTACH, "w:must", {.must = true}},
    {RULES_ATTACH, "w:wait=0", {.wait_ms = 0}},
    {RULES_ATTACH, "w:wait=30", {.wait_ms = 30000}},
    {RULES_ATTACH, "w:wait=0.5:must", {.wait_ms = 500, .must = true}},
    {RULES_ATTACH, "w:wait=1.25", {.wait_ms = 1250}},
    {RULES_ATTACH, "w:wait=0.001", {.wait_ms = 1}},
    {RULES_ATTACH, "w:wait=0.0001", {.wait_ms = 1}},
    {RULES_ATTACH, "w:wait=1.0000", {.wait_ms = 1000}},
    {RULES_ATTACH, "w:wait=0.9999", {.wait_ms = 1000}},
    {RULES_ATTACH, "w:wait=4294966.999", {.wait_ms = 4294966999u}},
    {RULES_ATTACH, "w:must:nth=1:wait=2", {.wait_ms = 2000, .must = true}},
    {RULES_ATTACH, "w:readonly:must", {.flags = READONLY, .must = true, .vmm = true}},
    {RULES_NAME, "w", {.vmm = false}},
    {RULES_NAME, "w:vmm", {.vmm = true}},
    {RULES_NAME, "w:map", {.vmm = true}},
    {RULES_NAME, "w:map:readonly", {.flags = READONLY, .vmm = true}},
    {RULES_NAME, "w:keep", {.flags = KEEP, .vmm = true}},
    {RULES_NAME, "w:readonly", {.flags = READONLY, .vmm = true}},
    {RULES_NAME, "w:keep:ttl=1", {.flags = KEEP, .ttl_s = 1, .vmm = true}},
    {RULES_NAME, "w:ttl=4294967295:keep", {.flags = KEEP, .ttl_s = 4294967295u, .vmm = true}},
    {RULES_NAME,
     "w:adopt:readonly:keep:ttl=60:vmm",
     {.flags = KEEP | READONLY, .ttl_s = 60, .adopt = true, .vmm = true}},
    {RULES_NAME, "w:mode=640", {.mode = 0640}},
    {RULES_NAME, "w:mode=0666:group=video", {.mode = 0666, .group = "video"}},
    {RULES_NAME, "w:group=1000:readonly", {.flags = READONLY, .vmm = true, .group = "1000"}},
};

static void options_come_with_the_match(void **state)
{
	for (size_t i = 0; i < COUNT(options); i++) {
		struct rules *rules = parsed(options[i].kind, options[i].text);
		const struct rules_match *wanted = &options[i].match;
		struct rules_match match;

		memset(&match, 1, sizeof(match));
		assert_true(
		    rules_match(rules, 0, &(struct rules_allocation){.size = 1}, &process, &match));
		assert_string_equal(match.name, "w");
		assert_int_equal(match.wait_ms, wanted->wait_ms);
		assert_int_equal(match.must, wanted->must);
		assert_int_equal(match.flags, wanted->flags);
		assert_int_equal(match.ttl_s, wanted->ttl_s);
		assert_int_equal(match.adopt, wanted->adopt);
		assert_int_equal(match.vmm, wanted->vmm);
		assert_false(match.unified);
		assert_int_equal(match.mode, wanted->mode);
		assert_string_equal(match.group, wanted->group);
		rules_free(rules);
	}
}

static void unified_takes_managed_memory_and_passes_over_the_rest(void **state)
{
	static const char *const texts[] = {"u:unified", "u:unified:api=cudaMallocManaged",
					    "u:api=cuMemAllocManaged:unified:keep:map"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct rules *rules = parsed(RULES_NAME, texts[i]);
		const struct rules_allocation plain = {.size = 1, .driver = RULES_API_cuMemAlloc};
		const struct rules_allocation managed = {.size = 1,
							 .driver = RULES_API_cuMemAllocManaged,
							 .runtime = RULES_API_cudaMallocManaged};
		struct rules_match match = {.unified = false};

		assert_false(rules_match(rules, 0, &plain, &process, &match));
		assert_false(rules_concern(rules, &plain));
		assert_true(rules_match(rules, 0, &managed, &process, &match));
		assert_true(match.unified && match.vmm);
		assert_int_equal(match.flags, strstr(texts[i], "keep") ? GPUSHARE_FLAG_KEEP : 0);
		rules_free(rules);
	}
}

static void a_rank_is_digits_or_nothing(void **state)
{
	static const struct {
		const char *rank, *name;
	} rows[] = {{NULL, "w0"},
		    {"0", "w0"},
		    {"17", "w17"},
		    {"007", "w007"},
		    {"", ""},
		    {"x", ""},
		    {"1x", ""},
		    {"-1", ""},
		    {" 1", ""},
		    {"../../1", ""},
		    {"1234567890123456789012345", ""}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rules *rules = parsed(RULES_NAME, "w%r,plain");
		struct rules_process ranked = {.pid = 1, .rank = rows[i].rank};
		struct rules_match match;

		assert_true(
		    rules_match(rules, 0, &(struct rules_allocation){.size = 1}, &ranked, &match));
		/* without a usable rank the rule does not match, and the next one does */
		assert_string_equal(match.name, *rows[i].name ? rows[i].name : "plain");
		rules_free(rules);
	}
}

static void a_name_that_grows_too_long_does_not_match(void **state)
{
	struct rules *rules = parsed(RULES_NAME, X255 ",%p" X16 ",%d");
	static char just_fits[] = "%i" X255;
	struct rules *counted;

	assert_string_equal(name_of(rules, 1, 0), X255);
	assert_string_equal(name_of(rules, 1, 0), "4711" X16);
	rules_free(rules);

	just_fits[2 + 254] = '\0'; /* 254 bytes and one digit */
	counted = parsed(RULES_NAME, just_fits);
	for (int i = 0; i < 10; i++)
		assert_int_equal(strlen(name_of(counted, 1, 0)), 255);
	assert_string_equal(name_of(counted, 1, 0), "");
	assert_string_equal(name_of(counted, 1, 0), "");
	rules_free(counted);
}

static void out_is_untouched_without_a_match(void **state)
{
	struct rules *rules = parsed(RULES_ATTACH, "w:size=5:wait=1:must");
	struct rules_match match = {.name = "before", .wait_ms = 9, .must = false};

	assert_false(
	    rules_match(rules, 0, &(struct rules_allocation){.size = 4}, &process, &match));
	assert_string_equal(match.name, "before");
	assert_int_equal(match.wait_ms, 9);
	assert_false(match.must);
	rules_free(rules);
}

static void rules_are_alive_while_one_can_match(void **state)
{
	static const struct {
		const char *text;
		int after; /* allocations until rules_alive() is false; -1: never */
	} rows[] = {{"a", 1},		{"a,b", 2},
		    {"a%i", -1},	{"a:nth=3", 3},
		    {"a%i:nth=2-4", 4}, {"a:nth=2-4", 2},
		    {"a:size=7", -1},	{"a:device=1", -1},
		    {"a,b%i", -1},	{"a:nth=1,b:nth=5", 5}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rules *rules = parsed(RULES_NAME, rows[i].text);

		for (int count = 0; count < 10; count++) {
			if (rules_alive(rules) != (rows[i].after < 0 || count < rows[i].after))
				fail_msg("%s: wrong after %d", rows[i].text, count);
			name_of(rules, 1, 0);
		}
		rules_free(rules);
	}
}

static bool matches(enum rules_kind kind, const char *text, const struct rules_allocation *what)
{
	struct rules *rules = parsed(kind, text);
	struct rules_match match;
	bool matched = rules_match(rules, 0, what, &process, &match);

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

			/* with a static runtime only the driver call is seen */
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
    /* a pattern with a slash matches the whole path, and its star also matches slashes */
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
		/* a used-up rule concerns nothing until its match is returned */
		if (rules_match(rules, 0, &what, &process, &match)) {
			assert_false(rules_concern(rules, &what));
			fail_match(rules, &what, &match);
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
	free(text); /* no rule points into the text */
	assert_false(rules_concern(rules, &(struct rules_allocation){.size = MANY}));
	for (int i = MANY - 1; i >= 0; i--) {
		char path[32], name[32];
		struct rules_allocation what = {.size = (uint64_t)i / 2 + 1, .from = path};
		struct rules_match match;

		snprintf(path, sizeof(path), "/lib/lib%d.so", i);
		snprintf(name, sizeof(name), "n%d", i);
		assert_true(rules_alive(rules));
		assert_true(rules_concern(rules, &what));
		assert_true(rules_match(rules, 0, &what, &process, &match));
		assert_string_equal(match.name, name);
		assert_int_equal(match.rule, i);
		assert_false(rules_match(rules, 0, &what, &process, &match));
	}
	assert_false(rules_alive(rules));
	rules_free(rules);
}

#define LIVE 5

/* Compute the `number`th permutation of LIVE things. */
static void permutation(int number, int order[LIVE])
{
	for (int i = 0; i < LIVE; i++)
		order[i] = i;
	for (int left = LIVE; left > 1; number /= left, left--) {
		int pick = number % left, kept = order[pick];

		order[pick] = order[left - 1];
		order[left - 1] = kept;
	}
}

/* All of nth=1-5 match, and `count` of them fail in this order. Then as many match again, and no
 * more. */
static void return_in_order(const int order[LIVE], int count)
{
	struct rules *rules = parsed(RULES_NAME, "w%i:nth=1-5");
	struct rules_allocation what = {.size = 1};
	struct rules_match matches[LIVE], more;

	for (int i = 0; i < LIVE; i++)
		assert_true(rules_match(rules, 0, &what, &process, &matches[i]));
	assert_false(rules_alive(rules));
	for (int i = 0; i < count; i++)
		fail_match(rules, &what, &matches[order[i]]);
	for (int i = 0; i < count; i++)
		assert_true(rules_match(rules, 0, &what, &process, &matches[order[i]]));
	assert_false(rules_match(rules, 0, &what, &process, &more));
	assert_false(rules_alive(rules));
	for (int i = 0; i < LIVE; i++)
		for (int other = 0; other < i; other++)
			assert_string_not_equal(matches[i].name, matches[other].name);
	rules_free(rules);
}

static void returns_in_any_order_leave_room_for_as_many(void **state)
{
	for (int number = 0; number < 1 * 2 * 3 * 4 * 5; number++) {
		int order[LIVE];

		permutation(number, order);
		for (int count = 1; count <= LIVE; count++)
			return_in_order(order, count);
	}
}

#define MATCHERS 4
#define ASKERS 2
#define ROUNDS 5000 /* the first of each three fails */

/* Threads that match share a lock, as the rules require. Threads that only ask take none. */
struct crowd {
	pthread_mutex_t lock;
	struct rules *rules;
	char kept[MATCHERS * ROUNDS]; /* by index: how many allocations have it */
	int kept_count, failures;
	atomic_int matching, wrong;
};

static void match_once(struct crowd *crowd, int round)
{
	struct rules_allocation what = {
	    .size = (uint64_t)round % 2 + 1, .driver = RULES_API_cuMemAlloc, .from = "./app"};
	struct rules_match match;
	bool matched;

	pthread_mutex_lock(&crowd->lock);
	matched = rules_match(crowd->rules, 0, &what, &process, &match);
	pthread_mutex_unlock(&crowd->lock);
	if (!matched || match.rule != 1 || match.index >= sizeof(crowd->kept)) {
		atomic_fetch_add(&crowd->wrong, 1);
		return;
	}
	pthread_mutex_lock(&crowd->lock);
	if (round % 3) {
		crowd->kept[match.index]++;
		crowd->kept_count++;
	} else {
		fail_match(crowd->rules, &what, &match);
		crowd->failures++;
	}
	pthread_mutex_unlock(&crowd->lock);
}

static void *matcher(void *context)
{
	struct crowd *crowd = context;

	for (int round = 0; round < ROUNDS; round++)
		match_once(crowd, round);
	atomic_fetch_sub(&crowd->matching, 1);
	return NULL;
}

static void *asker(void *context)
{
	struct crowd *crowd = context;

	do {
		struct rules_allocation what = {.size = 2, .driver = RULES_API_cuMemAlloc};

		if (!rules_concern(crowd->rules, &what))
			atomic_fetch_add(&crowd->wrong, 1);
		what.size = 3;
		if (rules_concern(crowd->rules, &what))
			atomic_fetch_add(&crowd->wrong, 1);
	} while (atomic_load(&crowd->matching) > 0);
	return NULL;
}

static void threads_never_share_an_index_and_askers_need_no_lock(void **state)
{
	static struct crowd crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .matching = MATCHERS};
	pthread_t threads[MATCHERS + ASKERS];
	struct rules_match match;

	crowd.rules = parsed(RULES_NAME, "c:api=cuMemCreate:size=1-2,w%i:from=app:size=1-2,"
					 "n:size=1-2:nth=13334");
	for (int i = 0; i < MATCHERS + ASKERS; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, i < MATCHERS ? matcher : asker, &crowd), 0);
	for (int i = 0; i < MATCHERS + ASKERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.wrong, 0);
	for (size_t i = 0; i < sizeof(crowd.kept); i++)
		assert_in_range(crowd.kept[i], 0, 1);
	/* failures left no trace in the counts: the next allocation has this index */
	assert_int_equal(crowd.kept_count, MATCHERS * ROUNDS - crowd.failures);
	assert_int_equal(crowd.kept_count, 13332);
	assert_true(rules_match(crowd.rules, 0,
				&(struct rules_allocation){.size = 1, .from = "app"}, &process,
				&match));
	assert_int_equal(match.rule, 1);
	assert_true(
	    rules_match(crowd.rules, 0, &(struct rules_allocation){.size = 1}, &process, &match));
	assert_string_equal(match.name, "n");
	rules_free(crowd.rules);
}

struct queue {
	struct rules *rules;
	pthread_mutex_t lock;
	atomic_int passed, matched;
};

static void *passer(void *context)
{
	const struct rules_allocation what = {.size = 1};
	struct queue *queue = context;
	struct rules_match match;
	bool matched;

	for (int round = 0; round < ROUNDS; round++) {
		size_t asked = rules_pass(queue->rules, &what);

		if (asked == RULES_NONE) {
			atomic_fetch_add(&queue->passed, 1);
			continue;
		}
		pthread_mutex_lock(&queue->lock);
		matched = rules_match(queue->rules, asked, &what, &process, &match);
		pthread_mutex_unlock(&queue->lock);
		atomic_fetch_add(&queue->matched, matched);
	}
	return NULL;
}

static void who_counts_without_a_lock_leaves_the_wanted_ones(void **state)
{
	static struct queue queue = {.lock = PTHREAD_MUTEX_INITIALIZER};
	const struct rules_allocation other = {.size = 9};
	pthread_t threads[MATCHERS];

	queue.rules =
	    parsed(RULES_NAME, "a:size=1:nth=1000-1002,w%i:size=1:nth=2000-2003,z:size=5");
	for (int i = 0; i < MATCHERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, passer, &queue), 0);
	for (int i = 0; i < MATCHERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(queue.matched, 1 + 4);
	assert_in_range(queue.passed, MATCHERS * ROUNDS - 100, MATCHERS * ROUNDS - 5);
	/* what matches no selector is passed too, and counted nowhere */
	assert_true(rules_pass(queue.rules, &other) == RULES_NONE);
	assert_int_equal(rules_pass(queue.rules, &(struct rules_allocation){.size = 5}), 2);
	assert_true(rules_pass(NULL, &other) == RULES_NONE);
	rules_free(queue.rules);
}

#define LINE_MAX_BYTES 400

#define TTL "ttl wants whole seconds from 1, such as 3600"

#define MODE "mode wants octal digits of read and write bits, such as 640"
#define GROUP "group wants the name or number of a group"

#define UNKNOWN \
	"unknown option, none of nth size device api from wait must keep ttl readonly vmm map " \
	"adopt " \
	"unified mode group"

static const struct refusal {
	enum rules_kind kind;
	const char *rules, *sentence, *shown;
} refusals[] = {
    {0, ",", "an empty rule", ">>><<<,"},
    {0, ",a", "an empty rule", ">>><<<,a"},
    {0, "a,,b", "an empty rule", "a,>>><<<,b"},
    {0, "a,", "nothing follows the last comma", "a,>>><<<"},
    {0, ":nth=1", "a rule starts with a name", ">>><<<:nth=1"},
    {0, "a,:nth=1,b", "a rule starts with a name", "a,>>><<<:nth=1,b"},
    {0, "a:", "an empty option", "a:>>><<<"},
    {0, "a::nth=1", "an empty option", "a:>>><<<:nth=1"},
    {0, "a b", "rules can't hold blanks", ">>>a b<<<"},
    {0, " ", "rules can't hold blanks", ">>> <<<"},
    {0, "a, b", "rules can't hold blanks", "a,>>> b<<<"},
    {0, "a:nth=1 :size=2", "rules can't hold blanks", "a:>>>nth=1 <<<:size=2"},
    {0, "a\tb", "rules can't hold blanks", ">>>a\\x09b<<<"},
    {0, "a\n", "rules can't hold blanks", ">>>a\\x0a<<<"},
    {0, "a:\rmust", "rules can't hold blanks", "a:>>>\\x0dmust<<<"},
    {0, "ok,w*", "a name is made of A-Z a-z 0-9 . _ / - and %i %p %r %d", "ok,>>>w*<<<"},
    {0, "-w", "a name does not begin with '-'", ">>>-w<<<"},
    {1, "ok,-w%i:wait=1", "a name does not begin with '-'", "ok,>>>-w%i<<<:wait=1"},
    {0, "a=b", "a name is made of A-Z a-z 0-9 . _ / - and %i %p %r %d", ">>>a=b<<<"},
    {0, "a\\b", "a name is made of A-Z a-z 0-9 . _ / - and %i %p %r %d", ">>>a\\\\b<<<"},
    {0, "\xc3\xa4", "a name is made of A-Z a-z 0-9 . _ / - and %i %p %r %d", ">>>\\xc3\\xa4<<<"},
    {0, "\x1b[31m", "a name is made of A-Z a-z 0-9 . _ / - and %i %p %r %d", ">>>\\x1b[31m<<<"},
    {0, "a%x", "a template takes %i %p %r %d", ">>>a%x<<<"},
    {0, "a%", "a template takes %i %p %r %d", ">>>a%<<<"},
    {0, "a%:nth=1", "a template takes %i %p %r %d", ">>>a%<<<:nth=1"},
    {0, "a%%", "%% stands for a % sign, which no name can hold", ">>>a%%<<<"},
    {0, X255 "x", "the name is longer than 255 bytes", ">>>" X255 "x<<<"},
    {0, X255 "%i", "the name is longer than 255 bytes", ">>>" X255 "%i<<<"},
    {0, "a:colour=red", UNKNOWN, "a:>>>colour=red<<<"},
    {0, "a:nt=1", UNKNOWN, "a:>>>nt=1<<<"},
    {0, "a:nthh=1", UNKNOWN, "a:>>>nthh=1<<<"},
    {0, "a:=1", UNKNOWN, "a:>>>=1<<<"},
    {0, "a:NTH=1", UNKNOWN, "a:>>>NTH=1<<<"},
    {0, "a:nth=1:nth=1", "option \"nth\" is given twice", "a:nth=1:>>>nth=1<<<"},
    {0, "a:api=cuMemAlloc:api=cudaMalloc", "option \"api\" is given twice",
     "a:api=cuMemAlloc:>>>api=cudaMalloc<<<"},
    {0, "a:from=x:from=y", "option \"from\" is given twice", "a:from=x:>>>from=y<<<"},
    /* the end of an option or of a rule ends a glob */
    {0, "a:from=x:y", UNKNOWN, "a:from=x:>>>y<<<"},
    {0, "a:from=x,:y", "a rule starts with a name", "a:from=x,>>><<<:y"},
    {0, "a:from=my lib", "rules can't hold blanks", "a:>>>from=my lib<<<"},
    {1, "a:must:must", "option \"must\" is given twice", "a:must:>>>must<<<"},
    {0, "a:wait=1", "option \"wait\" is for GPUSHARE_ATTACH only", "a:>>>wait=1<<<"},
    {0, "a:must", "option \"must\" is for GPUSHARE_ATTACH only", "a:>>>must<<<"},
    {1, "a:keep", "option \"keep\" is for GPUSHARE_NAME only", "a:>>>keep<<<"},
    {1, "a:ttl=5", "option \"ttl\" is for GPUSHARE_NAME only", "a:>>>ttl=5<<<"},
    {1, "a:mode=640", "option \"mode\" is for GPUSHARE_NAME only", "a:>>>mode=640<<<"},
    {1, "a:group=a", "option \"group\" is for GPUSHARE_NAME only", "a:>>>group=a<<<"},
    {1, "a:vmm", "option \"vmm\" is for GPUSHARE_NAME only", "a:>>>vmm<<<"},
    {1, "a:map", "option \"map\" is for GPUSHARE_NAME only", "a:>>>map<<<"},
    {0, "a:map=1", "map takes no value", "a:>>>map=1<<<"},
    {1, "a:adopt", "option \"adopt\" is for GPUSHARE_NAME only", "a:>>>adopt<<<"},
    {0, "a:keep:keep", "option \"keep\" is given twice", "a:keep:>>>keep<<<"},
    {0, "a:keep,b:ttl=5", "this option needs \"keep\"", "a:keep,b:>>>ttl=5<<<"},
    {0, "a:ttl=5:vmm,b:keep", "this option needs \"keep\"", "a:>>>ttl=5<<<:vmm,b:keep"},
    {0, "a:readonly:adopt", "this option needs \"keep\"", "a:readonly:>>>adopt<<<"},
    {0, "a:keep=", "keep takes no value", "a:>>>keep=<<<"},
    {0, "a:readonly=1", "readonly takes no value", "a:>>>readonly=1<<<"},
    {0, "a:vmm=yes", "vmm takes no value", "a:>>>vmm=yes<<<"},
    {0, "a:unified=", "unified takes no value", "a:>>>unified=<<<"},
    {1, "a:unified", "option \"unified\" is for GPUSHARE_NAME only", "a:>>>unified<<<"},
    {0, "a:unified:api=cudaMalloc,b", "\"unified\" is for managed memory (cudaMallocManaged) only",
     ">>>a:unified:api=cudaMalloc<<<,b"},
    {0, "a:keep:adopt=1", "adopt takes no value", "a:keep:>>>adopt=1<<<"},
    {0, "a:mode", MODE, "a:>>>mode<<<"},
    {0, "a:mode=", MODE, "a:>>>mode=<<<"},
    {0, "a:mode=0", MODE, "a:>>>mode=0<<<"},
    {0, "a:mode=649", MODE, "a:>>>mode=649<<<"},
    {0, "a:mode=755", MODE, "a:>>>mode=755<<<"},
    {0, "a:mode=4600", MODE, "a:>>>mode=4600<<<"},
    {0, "a:mode=rw", MODE, "a:>>>mode=rw<<<"},
    {0, "a:mode=00600", MODE, "a:>>>mode=00600<<<"},
    {0, "a:mode=-600", MODE, "a:>>>mode=-600<<<"},
    {0, "a:mode=0x180", MODE, "a:>>>mode=0x180<<<"},
    {0, "a:group", GROUP, "a:>>>group<<<"},
    {0, "a:group=", GROUP, "a:>>>group=<<<"},
    {0, "a:keep:ttl", TTL, "a:keep:>>>ttl<<<"},
    {0, "a:keep:ttl=", TTL, "a:keep:>>>ttl=<<<"},
    {0, "a:keep:ttl=0", TTL, "a:keep:>>>ttl=0<<<"},
    {0, "a:keep:ttl=0.5", TTL, "a:keep:>>>ttl=0.5<<<"},
    {0, "a:keep:ttl=1h", TTL, "a:keep:>>>ttl=1h<<<"},
    {0, "a:keep:ttl=-1", TTL, "a:keep:>>>ttl=-1<<<"},
    {0, "a:keep:ttl=4294967296", "the number is too large", "a:keep:>>>ttl=4294967296<<<"},
};

#define NTH "nth wants N or A-B, counted from 1"
#define SIZE "size wants N, N-M or N-, in bytes or with K M G T Ki Mi Gi Ti"
#define DEVICE "device wants a CUDA device number, counted from 0"
#define WAIT "wait wants seconds, such as 30 or 0.5"
#define A(name, driver) " " #name
#define API "api wants one of" RULES_APIS(A)
#define FROM "from wants a file name or path, in which * ? [ ] are wild"
#define LARGE "the number is too large"
#define BACKWARDS "the range ends before it starts"

static const struct value {
	const char *option, *sentence;
} values[] = {
    {"nth", NTH},
    {"nth=", NTH},
    {"nth=0", NTH},
    {"nth=0-5", NTH},
    {"nth=1-", NTH},
    {"nth=x", NTH},
    {"nth=1x", NTH},
    {"nth=-1", NTH},
    {"nth=1-2-3", NTH},
    {"nth=1K", NTH},
    {"nth=+1", NTH},
    {"nth==1", NTH},
    {"nth=5-2", BACKWARDS},
    {"nth=18446744073709551616", LARGE},
    {"nth=1-99999999999999999999", LARGE},
    {"size", SIZE},
    {"size=", SIZE},
    {"size=ten", SIZE},
    {"size=-5", SIZE},
    {"size=5P", SIZE},
    {"size=5k", SIZE},
    {"size=5i", SIZE},
    {"size=5KiB", SIZE},
    {"size=5--6", SIZE},
    {"size=K", SIZE},
    {"size=1-2-3", SIZE},
    {"size=0x10", SIZE},
    {"size=1.5G", SIZE},
    {"size=4Mi-1Mi", BACKWARDS},
    {"size=0", "no allocation has 0 bytes"},
    {"size=0-0", "no allocation has 0 bytes"},
    {"size=18446744073709551616", LARGE},
    {"size=18446744073709551615K", LARGE},
    {"size=17179869184Gi", LARGE},
    {"size=1-17179869184Gi", LARGE},
    {"device", DEVICE},
    {"device=", DEVICE},
    {"device=-1", DEVICE},
    {"device=first", DEVICE},
    {"device=0-1", DEVICE},
    {"device=2147483648", LARGE},
    {"device=99999999999999999999", LARGE},
    {"api", API},
    {"api=", API},
    {"api=malloc", API},
    {"api=CUMEMALLOC", API},
    {"api=cuMemAlloc_v2", API},
    {"api=cuMemAllo", API},
    {"api=cudaMalloc|cuMemCreate", API},
    {"api=cuda*", API},
    {"from", FROM},
    {"from=", FROM},
    {"wait", WAIT},
    {"wait=", WAIT},
    {"wait=.5", WAIT},
    {"wait=5.", WAIT},
    {"wait=1.5s", WAIT},
    {"wait=-1", WAIT},
    {"wait=1.2.3", WAIT},
    {"wait=1e3", WAIT},
    {"wait=forever", WAIT},
    {"wait=4294967296", LARGE},
    {"wait=4294967", LARGE},
    {"wait=99999999999999999999", LARGE},
    {"must=", "must takes no value"},
    {"must=1", "must takes no value"},
};

static void assert_refused(enum rules_kind kind, const char *text, const char *sentence,
			   const char *shown)
{
	static const char *const variables[] = {"GPUSHARE_NAME", "GPUSHARE_ATTACH"};
	char error[512], expected[512];
	struct rules *rules = rules_parse(kind, variables[kind], text, error, sizeof(error));

	snprintf(expected, sizeof(expected), "gpushare: %s: %s: %s", variables[kind], sentence,
		 shown);
	if (rules)
		fail_msg("%s was taken", text);
	assert_string_equal(error, expected);
}

static void what_does_not_parse_is_said_in_one_marked_line(void **state)
{
	for (size_t i = 0; i < COUNT(refusals); i++)
		assert_refused(refusals[i].kind, refusals[i].rules, refusals[i].sentence,
			       refusals[i].shown);
}

static void values_that_make_no_sense_are_said_with_what_is_wanted(void **state)
{
	for (size_t i = 0; i < COUNT(values); i++) {
		char text[64], shown[64];

		snprintf(text, sizeof(text), "a,w:%s,b", values[i].option);
		snprintf(shown, sizeof(shown), "a,w:>>>%s<<<,b", values[i].option);
		assert_refused(RULES_ATTACH, text, values[i].sentence, shown);
	}
}

static void assert_one_clean_line(const char *error)
{
	assert_true(strlen(error) <= LINE_MAX_BYTES);
	assert_int_equal(strncmp(error, "gpushare: V: ", 13), 0);
	assert_non_null(strstr(error, ">>>"));
	assert_non_null(strstr(error, "<<<"));
	for (const char *byte = error; *byte; byte++)
		assert_true(*byte >= ' ' && *byte <= '~');
}

static void hostile_text_is_shortened_around_the_mark(void **state)
{
	static char text[100000];
	char error[1024];

	memset(text, '\x01', sizeof(text) - 1);
	assert_null(rules_parse(RULES_NAME, "V", text, error, sizeof(error)));
	assert_one_clean_line(error);
	/* the longest sentence around the longest value */
	memcpy(text, "w:api=", 6);
	assert_null(rules_parse(RULES_NAME, "V", text, error, sizeof(error)));
	assert_one_clean_line(error);
	assert_non_null(strstr(error, "cudaMallocFromPoolAsync: w:>>>api=\\x01"));
	memset(text, 'a', sizeof(text) - 1);
	for (size_t i = 100; i < sizeof(text) - 1; i += 100)
		text[i] = ',';
	memcpy(text + 50050, ":bad,", 5);
	assert_null(rules_parse(RULES_NAME, "V", text, error, sizeof(error)));
	assert_one_clean_line(error);
	assert_non_null(strstr(error, " mode group: ...aaa"));
	assert_non_null(strstr(error, ":>>>bad<<<,aaa"));
	assert_non_null(strstr(error, "aaa..."));
}

static void the_error_is_cut_where_there_is_no_room(void **state)
{
	char error[16];

	memset(error, 'z', sizeof(error));
	assert_null(rules_parse(RULES_NAME, "V", "a:x", error, 10));
	assert_string_equal(error, "gpushare:");
	assert_int_equal(error[10], 'z');
	assert_null(rules_parse(RULES_NAME, "V", "a:x", NULL, 0));
}

UNIT_MAIN(UNIT(no_text_is_no_rules), UNIT(allocations_get_the_names_that_the_rules_give),
	  UNIT(options_come_with_the_match),
	  UNIT(unified_takes_managed_memory_and_passes_over_the_rest),
	  UNIT(a_rank_is_digits_or_nothing), UNIT(a_name_that_grows_too_long_does_not_match),
	  UNIT(out_is_untouched_without_a_match), UNIT(rules_are_alive_while_one_can_match),
	  UNIT(api_holds_for_the_driver_call_and_for_the_runtime_call_around_it),
	  UNIT(from_is_a_glob_over_the_callers_file),
	  UNIT(concern_looks_at_size_and_api_of_rules_that_are_not_spent),
	  UNIT(of_many_rules_each_takes_its_own),
	  UNIT(who_counts_without_a_lock_leaves_the_wanted_ones),
	  UNIT(returns_in_any_order_leave_room_for_as_many),
	  UNIT(threads_never_share_an_index_and_askers_need_no_lock),
	  UNIT(what_does_not_parse_is_said_in_one_marked_line),
	  UNIT(values_that_make_no_sense_are_said_with_what_is_wanted),
	  UNIT(hostile_text_is_shortened_around_the_mark),
	  UNIT(the_error_is_cut_where_there_is_no_room))
