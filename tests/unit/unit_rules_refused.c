/* SPDX-License-Identifier: MIT */
/* GPUSHARE_NAME and GPUSHARE_ATTACH: what does not parse, and how it is said. */
#include "unit.h"

#include <stdio.h>

#include "preload/rules.h"

#define LINE_MAX_BYTES 400
#define X16 "xxxxxxxxxxxxxxxx"
#define X255 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 X16 "xxxxxxxxxxxxxxx"

#define TTL "ttl wants whole seconds from 1, such as 3600"

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
    /* what ends an option or a rule ends a glob */
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
    {0, "a:keep,b:ttl=5", "this goes with \"keep\" only", "a:keep,b:>>>ttl=5<<<"},
    {0, "a:ttl=5:vmm,b:keep", "this goes with \"keep\" only", "a:>>>ttl=5<<<:vmm,b:keep"},
    {0, "a:readonly:adopt", "this goes with \"keep\" only", "a:readonly:>>>adopt<<<"},
    {0, "a:keep=", "keep takes no value", "a:>>>keep=<<<"},
    {0, "a:readonly=1", "readonly takes no value", "a:>>>readonly=1<<<"},
    {0, "a:vmm=yes", "vmm takes no value", "a:>>>vmm=yes<<<"},
    {0, "a:unified=", "unified takes no value", "a:>>>unified=<<<"},
    {1, "a:unified", "option \"unified\" is for GPUSHARE_NAME only", "a:>>>unified<<<"},
    {0, "a:unified:api=cudaMalloc,b", "\"unified\" is for managed memory (cudaMallocManaged) only",
     ">>>a:unified:api=cudaMalloc<<<,b"},
    {0, "a:keep:adopt=1", "adopt takes no value", "a:keep:>>>adopt=1<<<"},
    {0, "a:keep:ttl", TTL, "a:keep:>>>ttl<<<"},
    {0, "a:keep:ttl=", TTL, "a:keep:>>>ttl=<<<"},
    {0, "a:keep:ttl=0", TTL, "a:keep:>>>ttl=0<<<"},
    {0, "a:keep:ttl=0.5", TTL, "a:keep:>>>ttl=0.5<<<"},
    {0, "a:keep:ttl=1h", TTL, "a:keep:>>>ttl=1h<<<"},
    {0, "a:keep:ttl=-1", TTL, "a:keep:>>>ttl=-1<<<"},
    {0, "a:keep:ttl=4294967296", "the number is too large", "a:keep:>>>ttl=4294967296<<<"},
};

#define NTH "nth wants N or A-B, counted from 1"
#define SIZE "size wants N, N-M or N-, in bytes or with K M G Ki Mi Gi"
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
    {"size=5T", SIZE},
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

static const char *const later[] = {"tag=a=b", "tag"};

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
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
		assert_refused(refusals[i].kind, refusals[i].rules, refusals[i].sentence,
			       refusals[i].shown);
}

static void values_that_make_no_sense_are_said_with_what_is_wanted(void **state)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char text[64], shown[64];

		snprintf(text, sizeof(text), "a,w:%s,b", values[i].option);
		snprintf(shown, sizeof(shown), "a,w:>>>%s<<<,b", values[i].option);
		assert_refused(RULES_ATTACH, text, values[i].sentence, shown);
	}
}

static void options_of_later_work_are_refused_by_name(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(later) / sizeof(*later); i++) {
		const char *option = later[i / 2];
		char text[64], sentence[96], shown[64];

		snprintf(text, sizeof(text), "w:nth=1:%s", option);
		snprintf(sentence, sizeof(sentence),
			 "option \"%.*s\" is not supported by this version",
			 (int)strcspn(option, "="), option);
		snprintf(shown, sizeof(shown), "w:nth=1:>>>%s<<<", option);
		assert_refused(i % 2 ? RULES_ATTACH : RULES_NAME, text, sentence, shown);
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

static uint32_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

/* Pieces of the grammar, and of what is not in it, in any order; now and then any byte. */
static void random_text(uint64_t *seed, char *to, size_t room)
{
	static const char *const pieces[] = {"a",
					     "w",
					     "%i",
					     "%p",
					     "%r",
					     "%d",
					     "%%",
					     "%",
					     ",",
					     ",",
					     ":",
					     ":",
					     "nth=",
					     "size=",
					     "device=",
					     "api=",
					     "from=",
					     "cuMemAlloc",
					     "*",
					     "[",
					     "/",
					     "wait=",
					     "must",
					     "keep",
					     "readonly",
					     "tag=",
					     "1",
					     "0",
					     "7",
					     "2-3",
					     "-",
					     "Ki",
					     "M",
					     "Gi",
					     "=",
					     ".",
					     " ",
					     "\n",
					     "99999999999999999999",
					     "18446744073709551615",
					     X16};
	size_t used = 0, count = random_next(seed) % 24;

	for (size_t i = 0; i < count; i++) {
		char byte[2] = {(char)(1 + random_next(seed) % 255), '\0'};
		uint32_t pick = random_next(seed) % (sizeof(pieces) / sizeof(*pieces) + 2);
		const char *piece = pick < sizeof(pieces) / sizeof(*pieces) ? pieces[pick] : byte;

		if (used + strlen(piece) < room) {
			strcpy(to + used, piece);
			used += strlen(piece);
		}
	}
	to[used] = '\0';
}

static void a_hundred_thousand_random_texts_parse_or_say_why(void **state)
{
	uint64_t seed = 20261121;
	int taken = 0, refused = 0;

	for (int i = 0; i < 100000; i++) {
		char text[512], error[1024];
		struct rules *rules;
		struct rules_match match;

		random_text(&seed, text, sizeof(text));
		rules =
		    rules_parse(i % 2 ? RULES_ATTACH : RULES_NAME, "V", text, error, sizeof(error));
		if (!rules && *text)
			assert_one_clean_line(error);
		else
			assert_string_equal(error, "");
		taken += rules != NULL;
		refused += !rules;
		for (uint64_t size = 0; rules && size < 8; size++) {
			struct rules_allocation allocation = {
			    .size = size,
			    .device = (int)size % 2,
			    .driver = size % 3 ? RULES_API_cuMemAlloc : 0,
			    .from = size % 4 ? "./a" : NULL};

			bool concerned = rules_concern(rules, &allocation);

			if (!rules_match(rules, &allocation,
					 &(struct rules_process){.pid = 4711, .rank = "3"}, &match))
				continue;
			assert_in_range(strlen(match.name), 1, 255);
			assert_true(concerned);
			if (size % 2)
				rules_return(rules, &allocation, &match);
		}
		rules_free(rules);
	}
	/* both paths were really walked */
	assert_true(taken > 5000);
	assert_true(refused > 5000);
}

UNIT_MAIN(UNIT(what_does_not_parse_is_said_in_one_marked_line),
	  UNIT(values_that_make_no_sense_are_said_with_what_is_wanted),
	  UNIT(options_of_later_work_are_refused_by_name),
	  UNIT(hostile_text_is_shortened_around_the_mark),
	  UNIT(the_error_is_cut_where_there_is_no_room),
	  UNIT(a_hundred_thousand_random_texts_parse_or_say_why))
