/* SPDX-License-Identifier: MIT */
/* GPUSHARE_NAME and GPUSHARE_ATTACH: what matches, and under which name. */
#include "unit.h"

#include <stdio.h>

#include "gpushare.h"
#include "unit_rules.h"

#define X16 "xxxxxxxxxxxxxxxx"
#define X255 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 "xxxxxxxxxxxxxxx"

/* The name that the rules give; "" for none. */
static const char *name_of(struct rules *rules, uint64_t size, int device)
{
	static struct rules_match match;

	if (!rules_match(rules, &(struct rules_allocation){.size = size, .device = device},
			 &process, &match))
		return "";
	return match.name;
}

static void no_text_is_no_rules(void **state)
{
	char error[8] = "before";

	assert_null(rules_parse(RULES_NAME, "V", "", error, sizeof(error)));
	assert_string_equal(error, "");
	assert_null(rules_parse(RULES_ATTACH, "V", NULL, error, sizeof(error)));
	assert_null(rules_free(NULL));
	assert_false(rules_alive(NULL));
	assert_false(rules_match(NULL, &(struct rules_allocation){.size = 1}, &process, NULL));
}

/* One allocation after the other, as SIZE@DEVICE; the names they get, "-" for none. */
static const struct matching {
	const char *rules, *allocations, *names;
} matchings[] = {
    {"weights", "1@0 2@0", "weights -"},
    {"weights,kv", "1@0 2@0 3@0", "weights kv -"},
    {"a/b.c_D-9", "1@0", "a/b.c_D-9"},
    {"w%i", "1@0 2@0 3@1", "w0 w1 w2"},
    {"w%i%i", "1@0 2@0", "w00 w11"},
    {"%p.%r.%d", "1@7 1@0", "4711.3.7 -"},
    {"%i", "1@0 1@0", "0 1"},
    {"w:nth=2", "1@0 2@0 3@0", "- w -"},
    {"w:nth=1", "1@0 2@0", "w -"},
    {"w%i:nth=2-3", "1@0 2@0 3@0 4@0", "- w0 w1 -"},
    {"w:nth=2-3", "1@0 2@0 3@0 4@0", "- w - -"},
    {"w:size=100", "99@0 101@0 100@0 100@0", "- - w -"},
    {"w%i:size=10-20", "9@0 10@0 20@0 21@0", "- w0 w1 -"},
    {"w%i:size=10-", "9@0 10@0 18446744073709551615@0", "- w0 w1"},
    {"w%i:size=0-10", "0@0 10@0 11@0", "w0 w1 -"},
    {"w:size=1K", "1024@0 1000@0", "- w"},
    {"w:size=1Ki", "1000@0 1024@0", "- w"},
    {"w:size=3M", "3145728@0 3000000@0", "- w"},
    {"w:size=3Mi", "3000000@0 3145728@0", "- w"},
    {"w:size=2G", "2147483648@0 2000000000@0", "- w"},
    {"w:size=2Gi", "2000000000@0 2147483648@0", "- w"},
    {"w%i:size=1Ki-1Mi", "1023@0 1024@0 1048576@0 1048577@0", "- w0 w1 -"},
    {"w:device=1", "1@0 1@1 1@1", "- w -"},
    {"w%i:device=0", "1@0 1@1 1@0", "w0 - w1"},
    {"w:size=5:device=1:nth=2", "5@0 5@1 4@1 5@1 5@1", "- - - w -"},
    /* nth counts what another rule has taken, and only what the other selectors let through */
    {"a,b:nth=2", "1@0 2@0 3@0", "a b -"},
    {"a,b:nth=1", "1@0 2@0", "a -"},
    {"big:size=100-,rest%i", "5@0 100@0 6@0 100@0", "rest0 big rest1 rest2"},
    {"rest%i,big:size=100-", "100@0 100@0", "rest0 rest1"},
    {"a:device=1,b", "1@0 1@1 1@0", "b a -"},
    {"a,a", "1@0 1@0 1@0", "a a -"},
};

static void allocations_get_the_names_that_the_rules_give(void **state)
{
	for (size_t i = 0; i < sizeof(matchings) / sizeof(*matchings); i++) {
		const struct matching *row = &matchings[i];
		struct rules *rules = parsed(RULES_NAME, row->rules);
		const char *rest = row->allocations;
		char names[256] = "";

		while (*rest) {
			char *end;
			uint64_t size = strtoull(rest, &end, 10);
			int device = (int)strtol(end + 1, &end, 10);
			const char *name = name_of(rules, size, device);

			rest = end + strspn(end, " ");
			strcat(names, *name ? name : "-");
			strcat(names, *rest ? " " : "");
		}
		if (strcmp(names, row->names) != 0)
			fail_msg("%s: %s: got %s", row->rules, row->allocations, names);
		rules_free(rules);
	}
}

static void wait_and_must_come_with_the_match(void **state)
{
	static const struct {
		const char *text;
		unsigned int wait_ms;
		bool must;
	} rows[] = {
	    {"w", 0, false},
	    {"w:must", 0, true},
	    {"w:wait=0", 0, false},
	    {"w:wait=30", 30000, false},
	    {"w:wait=0.5:must", 500, true},
	    {"w:wait=1.25", 1250, false},
	    {"w:wait=0.001", 1, false},
	    {"w:wait=0.0001", 1, false},
	    {"w:wait=1.0000", 1000, false},
	    {"w:wait=0.9999", 1000, false},
	    {"w:wait=4294966.999", 4294966999u, false},
	    {"w:must:nth=1:wait=2", 2000, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rules *rules = parsed(RULES_ATTACH, rows[i].text);
		struct rules_match match;

		assert_true(
		    rules_match(rules, &(struct rules_allocation){.size = 1}, &process, &match));
		assert_string_equal(match.name, "w");
		assert_int_equal(match.wait_ms, rows[i].wait_ms);
		assert_int_equal(match.must, rows[i].must);
		rules_free(rules);
	}
}

static void how_it_is_kept_comes_with_the_match(void **state)
{
	static const struct {
		const char *text;
		uint32_t flags, ttl_s;
		bool adopt, vmm;
	} rows[] = {
	    {"w", 0, 0, false, false},
	    {"w:vmm", 0, 0, false, true},
	    {"w:map", 0, 0, false, true},
	    {"w:map:readonly", GPUSHARE_FLAG_READONLY, 0, false, true},
	    {"w:keep", GPUSHARE_FLAG_KEEP, 0, false, true},
	    {"w:readonly", GPUSHARE_FLAG_READONLY, 0, false, true},
	    {"w:keep:ttl=1", GPUSHARE_FLAG_KEEP, 1, false, true},
	    {"w:ttl=4294967295:keep", GPUSHARE_FLAG_KEEP, 4294967295u, false, true},
	    {"w:adopt:readonly:keep:ttl=60:vmm", GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY, 60,
	     true, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rules *rules = parsed(RULES_NAME, rows[i].text);
		struct rules_match match = {
		    .flags = 99, .ttl_s = 99, .adopt = true, .vmm = true, .unified = true};

		assert_true(
		    rules_match(rules, &(struct rules_allocation){.size = 1}, &process, &match));
		assert_int_equal(match.flags, rows[i].flags);
		assert_int_equal(match.ttl_s, rows[i].ttl_s);
		assert_int_equal(match.adopt, rows[i].adopt);
		assert_int_equal(match.vmm, rows[i].vmm);
		assert_false(match.unified);
		rules_free(rules);
	}
}

static void whose_it_is_comes_with_the_match(void **state)
{
	static const struct {
		enum rules_kind kind;
		const char *text;
		uint32_t flags, mode;
		const char *group;
	} rows[] = {
	    {RULES_NAME, "w", 0, 0, ""},
	    {RULES_NAME, "w:mode=640", 0, 0640, ""},
	    {RULES_NAME, "w:mode=0666:group=video", 0, 0666, "video"},
	    {RULES_NAME, "w:group=1000:readonly", GPUSHARE_FLAG_READONLY, 0, "1000"},
	    {RULES_ATTACH, "w:readonly:must", GPUSHARE_FLAG_READONLY, 0, ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rules *rules = parsed(rows[i].kind, rows[i].text);
		struct rules_match match = {.mode = 99, .group = "none", .flags = 99};

		assert_true(
		    rules_match(rules, &(struct rules_allocation){.size = 1}, &process, &match));
		assert_int_equal(match.flags, rows[i].flags);
		assert_int_equal(match.mode, rows[i].mode);
		assert_string_equal(match.group, rows[i].group);
		rules_free(rules);
	}
}

static void what_is_no_mode_or_group_is_refused(void **state)
{
	static const char *const texts[] = {
	    "w:mode",	 "w:mode=",	 "w:mode=0",	"w:mode=649",	"w:mode=755", "w:mode=4600",
	    "w:mode=rw", "w:mode=00600", "w:mode=-600", "w:mode=0x180", "w:group",    "w:group="};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char error[512];

		assert_null(rules_parse(RULES_NAME, "V", texts[i], error, sizeof(error)));
		assert_non_null(strstr(error, texts[i][2] == 'm' ? "mode wants octal digits"
								 : "group wants the name"));
	}
}

static void unified_takes_managed_memory_and_passes_over_the_rest(void **state)
{
	static const char *const texts[] = {"u:unified", "u:unified:api=cudaMallocManaged",
					    "u:api=cuMemAllocManaged:unified:keep:map"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct rules *rules = parsed(RULES_NAME, texts[i]);
		const struct rules_allocation plain = {.size = 1, .driver = RULES_API_cuMemAlloc};
		const struct rules_allocation managed = {.size = 1,
							 .driver = RULES_API_cuMemAllocManaged,
							 .runtime = RULES_API_cudaMallocManaged};
		struct rules_match match = {.unified = false};

		assert_false(rules_match(rules, &plain, &process, &match));
		assert_false(rules_concern(rules, &plain));
		assert_true(rules_match(rules, &managed, &process, &match));
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

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rules *rules = parsed(RULES_NAME, "w%r,plain");
		struct rules_process ranked = {.pid = 1, .rank = rows[i].rank};
		struct rules_match match;

		assert_true(
		    rules_match(rules, &(struct rules_allocation){.size = 1}, &ranked, &match));
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

	assert_false(rules_match(rules, &(struct rules_allocation){.size = 4}, &process, &match));
	assert_string_equal(match.name, "before");
	assert_int_equal(match.wait_ms, 9);
	assert_false(match.must);
	rules_free(rules);
}

static void rules_are_alive_while_one_can_match(void **state)
{
	static const struct {
		const char *text;
		int after; /* allocations until none is; -1: always */
	} rows[] = {{"a", 1},		{"a,b", 2},
		    {"a%i", -1},	{"a:nth=3", 3},
		    {"a%i:nth=2-4", 4}, {"a:nth=2-4", 2},
		    {"a:size=7", -1},	{"a:device=1", -1},
		    {"a,b%i", -1},	{"a:nth=1,b:nth=5", 5}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rules *rules = parsed(RULES_NAME, rows[i].text);

		for (int count = 0; count < 10; count++) {
			if (rules_alive(rules) != (rows[i].after < 0 || count < rows[i].after))
				fail_msg("%s: wrong after %d", rows[i].text, count);
			name_of(rules, 1, 0);
		}
		rules_free(rules);
	}
}

UNIT_MAIN(UNIT(no_text_is_no_rules), UNIT(allocations_get_the_names_that_the_rules_give),
	  UNIT(wait_and_must_come_with_the_match), UNIT(how_it_is_kept_comes_with_the_match),
	  UNIT(whose_it_is_comes_with_the_match), UNIT(what_is_no_mode_or_group_is_refused),
	  UNIT(unified_takes_managed_memory_and_passes_over_the_rest),
	  UNIT(a_rank_is_digits_or_nothing), UNIT(a_name_that_grows_too_long_does_not_match),
	  UNIT(out_is_untouched_without_a_match), UNIT(rules_are_alive_while_one_can_match))
