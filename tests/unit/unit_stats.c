/* SPDX-License-Identifier: MIT */
/* Statistics and differences that are computed while bytes pass by. */
#include "unit.h"

#include <math.h>
#include <unistd.h>

#include "../../tools/data/analysis.h"
#include "../../tools/data/stats.h"

static void find(enum dtype dtype, const void *data, size_t count, size_t step, struct stats *out)
{
	size_t each = dtype_traits(dtype)->size;

	stats_begin(out, dtype);
	for (size_t at = 0, part; at < count; at += part) {
		part = count - at < step ? count - at : step;
		stats_add(out, (const char *)data + at * each, part);
	}
	assert_int_equal(out->count, count);
}

static void assert_extremes(const struct stats *stats, const char *least, const char *most)
{
	char low[DTYPE_TEXT_MAX], high[DTYPE_TEXT_MAX];

	stats_extremes(stats, low, high);
	assert_string_equal(low, least);
	assert_string_equal(high, most);
}

static void test_stats_reals(void **state)
{
	static const float values[] = {NAN, 3.5f, -1.25f, 0, 7, -0.0f, NAN, 2};
	static const uint16_t halves[] = {0x7e00, 0xc000, 0x3c00}; /* NaN, -2, 1 */
	static const uint16_t brains[] = {0x3f80, 0x4049};	   /* 1, 3.140625 */
	struct stats stats;

	for (size_t step = 1; step <= 8; step++) {
		find(DTYPE_F32, values, 8, step, &stats);
		assert_extremes(&stats, "-1.25", "7");
		assert_int_equal(stats.nans, 2);
		assert_int_equal(stats.zeros, 2);
		assert_true(stats_mean(&stats) == 11.25 / 6);
	}
	find(DTYPE_F16, halves, 3, 2, &stats);
	assert_extremes(&stats, "-2", "1");
	assert_true(stats_mean(&stats) == -0.5 && stats.nans == 1);
	find(DTYPE_BF16, brains, 2, 1, &stats);
	assert_extremes(&stats, "1", "3.141");
	assert_true(stats_mean(&stats) == 2.0703125);
}

static void test_stats_integers(void **state)
{
	static const int64_t signeds[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1};
	static const uint64_t unsigneds[] = {UINT64_MAX - 1, UINT64_MAX, 5};
	static const int8_t bytes[] = {-128, 127, 0};
	static const uint8_t truths[] = {0, 1, 7, 0};
	struct stats stats;

	find(DTYPE_I64, signeds, 3, 1, &stats); /* a double would not tell them apart */
	assert_extremes(&stats, "-9223372036854775808", "9223372036854775807");
	find(DTYPE_U64, unsigneds, 2, 1, &stats);
	assert_extremes(&stats, "18446744073709551614", "18446744073709551615");
	find(DTYPE_I8, bytes, 3, 2, &stats);
	assert_extremes(&stats, "-128", "127");
	assert_true(stats_mean(&stats) == -1.0 / 3);
	find(DTYPE_BOOL, truths, 4, 3, &stats);
	assert_extremes(&stats, "false", "true");
	assert_true(stats_mean(&stats) == 0.5);
	assert_int_equal(stats.zeros, 2);
}

static void test_stats_none(void **state)
{
	static const double nans[] = {NAN, NAN};
	static const double infinite[] = {HUGE_VAL, 1, -HUGE_VAL};
	struct stats stats;

	find(DTYPE_F64, nans, 0, 1, &stats);
	assert_extremes(&stats, "none", "none");
	assert_true(isnan(stats_mean(&stats)));
	find(DTYPE_F64, nans, 2, 1, &stats);
	assert_extremes(&stats, "none", "none");
	assert_true(isnan(stats_mean(&stats)));
	find(DTYPE_F64, infinite, 2, 1, &stats);
	assert_extremes(&stats, "1", "inf");
	assert_true(stats_mean(&stats) == HUGE_VAL);
	find(DTYPE_F64, infinite, 3, 2, &stats);
	assert_true(isnan(stats_mean(&stats)));
	assert_int_equal(stats.infinities[0], 1);
	assert_int_equal(stats.infinities[1], 1);
}

/* Values that a plain sum of doubles would lose. */
static void test_stats_sum(void **state)
{
	static const double values[] = {1, 1e100, 1, -1e100};
	double *tenths = malloc(1000000 * sizeof(*tenths));
	struct stats stats;

	assert_non_null(tenths);
	find(DTYPE_F64, values, 4, 1, &stats);
	assert_true(stats_mean(&stats) == 0.5);
	for (int i = 0; i < 1000000; i++)
		tenths[i] = 0.1;
	find(DTYPE_F64, tenths, 1000000, 4096, &stats);
	assert_true(stats_mean(&stats) == 0.1);
	free(tenths);
}

/* Statistics of parts, merged, equal those of the whole. */
static void test_stats_merge(void **state)
{
	static const float values[] = {NAN, 3.5f, -1.25f, 0, HUGE_VALF, -0.0f, NAN, 2};
	char least[DTYPE_TEXT_MAX], most[DTYPE_TEXT_MAX];
	struct stats whole;

	find(DTYPE_F32, values, 8, 8, &whole);
	stats_extremes(&whole, least, most);
	for (size_t first = 0; first <= 8; first++)
		for (size_t second = first; second <= 8; second++) {
			struct stats parts[3];

			find(DTYPE_F32, values, first, 8, &parts[0]);
			find(DTYPE_F32, values + first, second - first, 8, &parts[1]);
			find(DTYPE_F32, values + second, 8 - second, 8, &parts[2]);
			stats_merge(&parts[0], &parts[1]);
			stats_merge(&parts[0], &parts[2]);
			assert_extremes(&parts[0], least, most);
			assert_int_equal(parts[0].count, 8);
			assert_int_equal(parts[0].nans, 2);
			assert_int_equal(parts[0].zeros, 2);
			assert_int_equal(parts[0].infinities[1], 1);
			assert_true(parts[0].sum + parts[0].lost == 4.25);
		}
}

/* Compare `ours` with a file that holds `theirs`, `step` bytes at a time. */
static struct compare compare(enum dtype dtype, const void *ours, const void *theirs, size_t size,
			      size_t step)
{
	char path[] = "/tmp/unit_stats.XXXXXX";
	struct query query = {.diff = path};
	struct layout layout = {.dtype = dtype, .length = size};
	struct analysis analysis;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, theirs, size), size);
	layout.length = size / dtype_traits(dtype)->size * dtype_traits(dtype)->size;
	assert_true(analysis_begin(&analysis, &query, &layout));
	for (size_t at = 0, part; at < size; at += part) {
		part = size - at < step ? size - at : step;
		assert_true(analysis_add(&analysis, (const char *)ours + at, part));
	}
	analysis_end(&analysis);
	close(fd);
	unlink(path);
	return analysis.compare;
}

static void test_compare(void **state)
{
	static float ours[5000], theirs[5000];
	struct compare found;

	for (int i = 0; i < 5000; i++)
		ours[i] = theirs[i] = (float)i;
	for (size_t step = 4; step <= sizeof(ours); step = step * 3 / 4 * 4) {
		found = compare(DTYPE_F32, ours, theirs, sizeof(ours), step);
		assert_int_equal(found.done, sizeof(ours));
		assert_int_equal(found.bytes, ours[4000] == theirs[4000] ? 0 : 5);
		if (found.bytes) {
			assert_int_equal(found.elements, 2);
			assert_int_equal(found.first, 1025 * 4 + 3);
			assert_memory_equal(found.ours, &ours[1025], 4);
			assert_memory_equal(found.theirs, &theirs[1025], 4);
		}
		/* From the second round on two differ: one in its last byte, one in all. */
		((unsigned char *)&theirs[1025])[3] = 0xff;
		memset(&theirs[4000], 0xee, 4);
	}
	/* the last element may be short */
	found = compare(DTYPE_F64, "12345678abc", "12345678abd", 11, 11);
	assert_int_equal(found.elements, 1);
	assert_int_equal(found.first, 10);
}

UNIT_MAIN(UNIT(test_stats_reals), UNIT(test_stats_integers), UNIT(test_stats_none),
	  UNIT(test_stats_sum), UNIT(test_stats_merge), UNIT(test_compare))
