/* SPDX-License-Identifier: MIT */
/* Element types, shapes, and values as text. */
#include "unit.h"

#include <math.h>

#include "../../tools/data/dtype.h"
#include "../../tools/data/shape.h"

static void test_dtype_names(void **state)
{
	for (int i = DTYPE_NONE + 1; i < DTYPE_COUNT; i++) {
		const struct dtype_traits *traits = dtype_traits((enum dtype)i);
		char torch[32];

		snprintf(torch, sizeof(torch), "torch.%s", traits->name);
		assert_int_equal(dtype_parse(traits->alias), i);
		assert_int_equal(dtype_parse(traits->name), i);
		assert_int_equal(dtype_parse(torch), i);
	}
	assert_int_equal(dtype_parse(""), DTYPE_NONE);
	assert_int_equal(dtype_parse("f3"), DTYPE_NONE);
	assert_int_equal(dtype_parse("F32"), DTYPE_NONE);
	assert_int_equal(dtype_parse("float32 "), DTYPE_NONE);
}

static void test_halves(void **state)
{
	static const struct {
		uint16_t bits;
		float value;
	} halves[] = {
	    {0x0000, 0.0f},	 {0x3c00, 1.0f},       {0xc000, -2.0f},
	    {0x7bff, 65504.0f},	 {0x0001, 0x1p-24f},   {0x03ff, 1023 * 0x1p-24f},
	    {0x0400, 0x1p-14f},	 {0x8001, -0x1p-24f},  {0x3555, 0x1.554p-2f},
	    {0x7c00, HUGE_VALF}, {0xfc00, -HUGE_VALF},
	};

	for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++)
		assert_true(dtype_half(halves[i].bits) == halves[i].value);
	assert_true(isnan(dtype_half(0x7e00)) && isnan(dtype_half(0xfc01)));
	assert_true(signbit(dtype_half(0x8000)));
	assert_true(dtype_brain(0x3f80) == 1.0f && dtype_brain(0xc049) == -3.140625f);
	assert_true(isinf(dtype_brain(0x7f80)) && isnan(dtype_brain(0x7fc0)));
}

static void assert_text(enum dtype dtype, const void *data, const char *text)
{
	char found[DTYPE_TEXT_MAX];

	dtype_text(dtype, data, found);
	assert_string_equal(found, text);
	assert_true(strlen(found) <= (size_t)dtype_traits(dtype)->width);
}

static void test_texts(void **state)
{
	assert_text(DTYPE_F32, &(float){0.1f}, "0.1");
	assert_text(DTYPE_F32, &(float){16777216.0f}, "16777216");
	assert_text(DTYPE_F32, &(float){-1.17549435e-38f}, "-1.1754944e-38");
	assert_text(DTYPE_F32, &(float){-NAN}, "nan");
	assert_text(DTYPE_F64, &(double){0.1}, "0.1");
	assert_text(DTYPE_F64, &(double){-2.2250738585072014e-308}, "-2.2250738585072014e-308");
	assert_text(DTYPE_F64, &(double){-HUGE_VAL}, "-inf");
	assert_text(DTYPE_F16, &(uint16_t){0x2e66}, "0.099976");
	assert_text(DTYPE_F16, &(uint16_t){0x8001}, "-5.9605e-08");
	assert_text(DTYPE_BF16, &(uint16_t){0xff7f}, "-3.39e+38");
	assert_text(DTYPE_I8, &(int8_t){-128}, "-128");
	assert_text(DTYPE_U8, &(uint8_t){255}, "255");
	assert_text(DTYPE_I16, &(int16_t){-32768}, "-32768");
	assert_text(DTYPE_U16, &(uint16_t){65535}, "65535");
	assert_text(DTYPE_I32, &(int32_t){INT32_MIN}, "-2147483648");
	assert_text(DTYPE_U32, &(uint32_t){UINT32_MAX}, "4294967295");
	assert_text(DTYPE_I64, &(int64_t){INT64_MIN}, "-9223372036854775808");
	assert_text(DTYPE_U64, &(uint64_t){UINT64_MAX}, "18446744073709551615");
	assert_text(DTYPE_BOOL, "\x02", "true");
	assert_text(DTYPE_BOOL, "\x00", "false");
}

static double exact(enum dtype dtype, unsigned int bits)
{
	uint16_t half = (uint16_t)bits;
	uint32_t wide = (uint32_t)bits << 16;
	__extension__ _Float16 small;
	float single;

	memcpy(&small, &half, sizeof(small));
	memcpy(&single, &wide, sizeof(single));
	return dtype == DTYPE_F16 ? (double)small : (double)single;
}

/* Each 16-bit float value has its own text. */
static void test_texts_tell_apart(void **state)
{
	static const enum dtype halves[] = {DTYPE_F16, DTYPE_BF16};
	char text[DTYPE_TEXT_MAX];

	for (size_t i = 0; i < 2; i++)
		for (unsigned int bits = 0; bits < 0x8000; bits++) {
			double value = exact(halves[i], bits), after = exact(halves[i], bits + 1);
			double read;

			dtype_text(halves[i], &(uint16_t){(uint16_t)bits}, text);
			assert_true(strlen(text) <= (size_t)dtype_traits(halves[i])->width - 1);
			read = strtod(text, NULL);
			if (isnan(value) || isinf(value) || isinf(after))
				continue;
			/* The text is nearer to this value than to the next. */
			assert_true(fabs(read - value) < (after - value) / 2);
		}
}

static void test_shape_parse(void **state)
{
	static const struct {
		const char *text;
		struct shape shape;
	} good[] = {
	    {"6", {1, {6}}},
	    {"2x3", {2, {2, 3}}},
	    {"2,3", {2, {2, 3}}},
	    {"(2, 3)", {2, {2, 3}}},
	    {"[2, 3]", {2, {2, 3}}},
	    {"(6,)", {1, {6}}},
	    {"()", {0, {0}}},
	    {"[ ]", {0, {0}}},
	    {" 2 x 3 ", {2, {2, 3}}},
	    {"0x5", {2, {0, 5}}},
	    {"1x2x3x4", {4, {1, 2, 3, 4}}},
	    {"18446744073709551615", {1, {UINT64_MAX}}},
	};
	static const char *const bad[] = {
	    "",
	    " ",
	    "x",
	    "2x",
	    "2,",
	    "x3",
	    "-1",
	    "2x-3",
	    "2x3,4",
	    "(2,3",
	    "2,3)",
	    "(2,3]",
	    "2;3",
	    "2 3",
	    "(2,,3)",
	    "(,)",
	    "2x3y",
	    "(2x)",
	    "()x",
	    "1.5",
	    "18446744073709551616",
	    "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
	};
	struct shape shape;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (!shape_parse(good[i].text, &shape))
			fail_msg("'%s' was refused", good[i].text);
		assert_true(shape_equal(&shape, &good[i].shape));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (shape_parse(bad[i], &shape))
			fail_msg("'%s' was taken for a shape", bad[i]);
}

static void test_shape_count(void **state)
{
	struct shape shape = {2, {1ull << 32, 1ull << 32}};
	char text[SHAPE_TEXT_MAX];
	uint64_t count = 7;

	assert_false(shape_count(&shape, &count));
	assert_int_equal(count, 7);
	shape.extent[1] = (1ull << 32) - 1;
	assert_true(shape_count(&shape, &count));
	assert_false(shape_size(&shape, 2, &count));
	shape = (struct shape){3, {1ull << 63, 1ull << 63, 0}};
	assert_true(shape_size(&shape, 8, &count));
	assert_int_equal(count, 0);
	assert_true(shape_count(&(struct shape){.rank = 0}, &count));
	assert_int_equal(count, 1);
	shape_index(&(struct shape){3, {2, 3, 4}}, 23, text);
	assert_string_equal(text, "[1,2,3]");
	shape_index(&(struct shape){2, {2, 3}}, 7, text);
	assert_string_equal(text, "[2,1]");
	shape_text(&(struct shape){3, {2, 3, 4}}, text);
	assert_string_equal(text, "2x3x4");
}

UNIT_MAIN(UNIT(test_dtype_names), UNIT(test_halves), UNIT(test_texts), UNIT(test_texts_tell_apart),
	  UNIT(test_shape_parse), UNIT(test_shape_count))
