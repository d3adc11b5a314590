/* SPDX-License-Identifier: MIT */
/* The command line tools' parts: numbers in and out, the hex view, progress. */
#include "unit.h"

#include "../../tools/data/view.h"
#include "../../tools/copy/progress.h"
#include "../../tools/common/tool.h"

static void test_parse_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
	} good[] = {
	    {"0", 0},
	    {"1", 1},
	    {"4096", 4096},
	    {"007", 7},
	    {"1K", 1000},
	    {"1Ki", 1024},
	    {"3M", 3000000},
	    {"3Mi", 3145728},
	    {"2G", 2000000000},
	    {"2Gi", 2147483648},
	    {"1T", 1000000000000},
	    {"1Ti", 1099511627776},
	    {"5B", 5},
	    {"5KiB", 5120},
	    {"5KB", 5000},
	    {"18446744073709551615", UINT64_MAX},
	    {"16777215Ti", 16777215ull << 40},
	};
	static const char *const bad[] = {
	    "",
	    " 1",
	    "1 ",
	    "-1",
	    "+1",
	    "x",
	    "1x",
	    "1k",
	    "1i",
	    "1KK",
	    "1Kii",
	    "1.5",
	    "0x10",
	    "K",
	    "18446744073709551616",
	    "16777216Ti",
	    "18446744073709552K",
	};
	uint64_t size;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		size = 12345;
		assert_true(tool_parse_size(good[i].text, &size));
		assert_int_equal(size, good[i].size);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		size = 12345;
		if (tool_parse_size(bad[i], &size))
			fail_msg("'%s' was taken for %llu", bad[i], (unsigned long long)size);
		assert_int_equal(size, 12345);
	}
}

static void test_parse_seconds(void **state)
{
	static const struct {
		const char *text;
		unsigned int ms;
	} good[] = {
	    {"0", 0},	      {"1", 1000},     {"0.3", 300},  {"30", 30000},
	    {"1.2345", 1234}, {"1.001", 1001}, {"0.0009", 0}, {"4294967", 4294967000u},
	};
	static const char *const bad[] = {
	    "",	  "-1",	   "soon", "1s",      "1.",
	    ".5", "1.2.3", "1e3",  "4294968", "99999999999999999999999"};
	unsigned int ms;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(tool_parse_seconds(good[i].text, &ms));
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (tool_parse_seconds(bad[i], &ms))
			fail_msg("'%s' was taken for %u ms", bad[i], ms);
}

static void test_format(void **state)
{
	static const struct {
		uint64_t size;
		const char *text;
	} sizes[] = {
	    {0, "0 B"},
	    {1023, "1023 B"},
	    {1024, "1 KiB"},
	    {1536, "1.5 KiB"},
	    {(uint64_t)1 << 30, "1 GiB"},
	    {UINT64_MAX, "16384 PiB"},
	};
	static const struct {
		uint64_t seconds;
		const char *text;
	} ages[] = {
	    {0, "0s"}, {59, "59s"}, {61, "1m01s"}, {3600, "1h00m"}, {90061, "1d01h"},
	};
	static const unsigned char uuid[GPUSHARE_UUID_SIZE] = {0, 1, 2,	 3,  4,	 5,  6,	 7,
							       8, 9, 10, 11, 12, 13, 14, 255};
	char text[TOOL_TEXT_MAX];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		tool_format_size(sizes[i].size, text);
		assert_string_equal(text, sizes[i].text);
	}
	for (size_t i = 0; i < sizeof(ages) / sizeof(*ages); i++) {
		tool_format_age(ages[i].seconds, text);
		assert_string_equal(text, ages[i].text);
	}
	tool_format_uuid(uuid, text);
	assert_string_equal(text, "GPU-00010203-0405-0607-0809-0a0b0c0d0eff");
	tool_printable("a\x1b[2Jb\xff\n", text, TOOL_TEXT_MAX);
	assert_string_equal(text, "a?[2Jb??");
	tool_printable("abcdef", text, 4);
	assert_string_equal(text, "abc");
}

static void assert_hex(const void *data, size_t size, uint64_t offset, const char *expected)
{
	struct view view;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	view_hex(&view, offset, out);
	view_feed(&view, data, size);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void test_view_hex(void **state)
{
	const unsigned char all[] = "0123456789abcdef";
	const unsigned char odd[] = {0x00, 0x1f, 0x20, 0x7e, 0x7f, 0x80, 0xff, '|', 'x'};

	assert_hex(all, 16, 0x10,
		   "00000010  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  "
		   "|0123456789abcdef|\n");
	assert_hex(odd, 9, 0,
		   "00000000  00 1f 20 7e 7f 80 ff 7c  78                       |.. ~...|x|\n");
	assert_hex(all, 16, UINT64_MAX - 15,
		   "fffffffffffffff0  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  "
		   "|0123456789abcdef|\n");
}

static void test_progress(void **state)
{
	char text[PROGRESS_TEXT];

	progress_format(256u << 20, 1u << 30, 2000, text);
	assert_string_equal(text, "256 MiB of 1 GiB, 25%, 128 MiB/s, 6s left");
	progress_format(0, 1000, 1500, text);
	assert_string_equal(text, "0 B of 1000 B, 0%, 0 B/s, ? left");
	progress_format(64u << 20, 0, 2000, text);
	assert_string_equal(text, "64 MiB, 32 MiB/s");
	progress_format(2000, 1000, 1000, text);
	assert_string_equal(text, "2.0 KiB of 1000 B, 100%, 2.0 KiB/s, 0s left");
	progress_format(1, UINT64_MAX, UINT64_MAX / 2, text);
	assert_non_null(strstr(text, " left"));
	progress_rate(1u << 30, 0.5, text);
	assert_string_equal(text, "1073741824 bytes in 0.500 s, 2.15 GB/s");
	progress_rate(0, 0, text);
	assert_string_equal(text, "0 bytes in 0.000 s, 0.00 GB/s");
}

static void test_progress_bar(void **state)
{
	char text[PROGRESS_TEXT];

	progress_bar(0, 100, false, text);
	assert_string_equal(text, "[                    ]");
	progress_bar(26, 100, false, text);
	assert_string_equal(text, "[=====               ]");
	progress_bar(26, 100, true, text);
	assert_string_equal(text, "[\033[32m=====\033[0m               ]");
	progress_bar(200, 100, false, text);
	assert_string_equal(text, "[====================]");
	progress_bar(0, 0, false, text);
	assert_string_equal(text, "[====================]");
}

UNIT_MAIN(UNIT(test_parse_size), UNIT(test_parse_seconds), UNIT(test_format), UNIT(test_view_hex),
	  UNIT(test_progress), UNIT(test_progress_bar))
