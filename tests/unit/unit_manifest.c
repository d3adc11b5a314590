/* SPDX-License-Identifier: MIT */
/* A set's manifest: what is written can be read back, and no file name in it leads outside. */
#include "unit.h"

#include "../../tools/data/layout.h"
#include "../../tools/copy/manifest.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_round_trip(void **state)
{
	struct manifest_entry entry = {
	    .info = {.name = "a/b",
		     .size = 24,
		     .backing = GPUSHARE_BACKING_VMM,
		     .flags = GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY,
		     .ttl_s = 60,
		     .generation = 7,
		     .mode = 0640,
		     .tag_count = 2,
		     .tags = {{"dtype", "f32"}, {"note", "\"quoted\" \xc3\xa4"}}},
	    .group = "root", /* gid 0 on every system */
	    .file = "a%2Fb.npy",
	    .npy = true,
	    .dtype = DTYPE_F32,
	    .has_shape = true,
	    .shape = {2, {2, 3}},
	    .sha256 = SHA,
	};
	struct manifest manifest = {.entries = NULL}, again;
	char why[MANIFEST_WHY_MAX];
	char *text;

	for (int i = 0; i < 40; i++)
		assert_true(manifest_add(&manifest, &entry));
	text = manifest_format(&manifest);
	assert_non_null(text);
	assert_true(manifest_parse(text, strlen(text), &again, why));
	assert_int_equal(again.count, 40);
	for (int i = 0; i < 40; i++)
		assert_memory_equal(&again.entries[i], &entry, sizeof(entry));
	for (size_t part = 0; part < strlen(text); part += 97) {
		struct manifest none;

		assert_false(manifest_parse(text, part, &none, why));
		assert_true(*why != '\0');
	}
	free(text);
	manifest_finish(&again);
	manifest_finish(&manifest);
}

/* One entry; the first %s is its file, the second adds keys. */
static const char form[] =
    "{\"buffers\": [{\"name\": \"n\", \"format\": \"raw\", \"sha256\": \"" SHA
    "\", \"size\": 5, \"file\": %s%s}]}";

static void test_bad(void **state)
{
	static const struct {
		const char *file, *more, *why;
	} bad[] = {
	    {"\"../n\"", "", "not one of this directory"},
	    {"\"/n\"", "", "not one of this directory"},
	    {"\"..\"", "", "not one of this directory"},
	    {"\".hidden\"", "", "not one of this directory"},
	    {"\"\"", "", "not one of this directory"},
	    {"\"a\\u0000b\"", "", "line 1"},
	    {"5", "", "missing"},
	    {"\"n\"", ", \"size\": 6", "line 1"}, /* twice */
	    {"\"n\"", ", \"shape\": [-1]", "shape"},
	    {"\"n\"",
	     ", \"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
	     "shape"},
	    {"\"n\"", ", \"shape\": 5", "shape"},
	    {"\"n\"", ", \"tags\": {\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\",\"e\":\"\"}",
	     "tags"},
	    {"\"n\"", ", \"tags\": {\"a23456789012345678901234567890123\":\"\"}", "tags"},
	    {"\"n\"", ", \"ttl_s\": 4294967296", "ttl_s"},
	    {"\"n\"", ", \"generation\": 1.5", "generation"},
	    {"\"n\"", ", \"mode\": 416", "mode"},
	    {"\"n\"", ", \"mode\": \"\"", "mode"},
	    {"\"n\"", ", \"mode\": \"0\"", "mode"},
	    {"\"n\"", ", \"mode\": \"1777\"", "mode"},
	    {"\"n\"", ", \"mode\": \"-640\"", "mode"},
	    {"\"n\"", ", \"mode\": \"640x\"", "mode"},
	    {"\"n\"", ", \"group\": 5", "group"},
	    {"\"n\"",
	     ", \"group\": \"a234567890123456789012345678901234567890123456789012345678901234\"",
	     "group"},
	};
	char text[1024], why[MANIFEST_WHY_MAX];
	struct manifest manifest;

	snprintf(text, sizeof(text), form, "\"n\"", "");
	assert_true(manifest_parse(text, strlen(text), &manifest, why));
	assert_int_equal(manifest.entries[0].info.size, 5);
	manifest_finish(&manifest);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), form, bad[i].file, bad[i].more);
		if (manifest_parse(text, strlen(text), &manifest, why))
			fail_msg("%s was taken", text);
		if (!strstr(why, bad[i].why))
			fail_msg("%s: '%s', not '%s'", text, why, bad[i].why);
	}
}

/* If the group has the same rights as others, no group is named, so restoring needs no
 * membership. */
static void test_a_group_that_does_not_matter(void **state)
{
	static const uint32_t modes[] = {0600, 0666, 0644, 0640, 0604, 0660};

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		struct manifest_entry entry = {
		    .info = {.name = "n", .size = 1, .mode = modes[i]}, .file = "n", .sha256 = SHA};
		struct manifest manifest = {.entries = NULL};
		char *text;

		assert_true(manifest_add(&manifest, &entry));
		text = manifest_format(&manifest);
		assert_int_equal(strstr(text, "\"group\"") != NULL, i > 2);
		free(text);
		manifest_finish(&manifest);
	}
}

static void test_file_names(void **state)
{
	struct gpushare_info info = {.name = "plain-1.2_x", .generation = 12345};
	char file[NAME_MAX + 1];

	manifest_name_file(&info, false, file);
	assert_string_equal(file, "plain-1.2_x.bin");
	strcpy(info.name, "../a/b");
	manifest_name_file(&info, true, file);
	assert_string_equal(file, "%2E.%2Fa%2Fb.npy");
	memset(info.name, '/', GPUSHARE_NAME_MAX);
	info.name[GPUSHARE_NAME_MAX] = '\0';
	manifest_name_file(&info, true, file);
	assert_int_equal(strlen(file), 204);
	assert_non_null(strstr(file, "-12345.npy"));
}

static struct gpushare_info tagged(const char *dtype, const char *shape, uint64_t size)
{
	struct gpushare_info info = {.name = "n", .size = size};

	if (dtype) {
		strcpy(info.tags[info.tag_count].key, "dtype");
		strcpy(info.tags[info.tag_count++].value, dtype);
	}
	if (shape) {
		strcpy(info.tags[info.tag_count].key, "shape");
		strcpy(info.tags[info.tag_count++].value, shape);
	}
	return info;
}

/* Where the element type and shape are taken from: options, then tags, then plain bytes. */
static void test_layout(void **state)
{
	const struct {
		const char *dtype, *shape; /* tags */
		struct query query;
		const char *found; /* NULL: refused */
	} cases[] = {
	    {"f32", "2x3", {.format = FORMAT_TEXT}, "float32 2x3"},
	    {"float32", NULL, {.stats = true}, "float32 6"},
	    {NULL, NULL, {.format = FORMAT_NPY}, "uint8 24"},
	    {NULL, "4x6", {.format = FORMAT_NPY}, "uint8 4x6"},
	    {"f32", "2x3", {.format = FORMAT_NPY, .dtype = DTYPE_U32}, "uint32 2x3"},
	    {"f32", "2x3", {.format = FORMAT_NPY, .dtype = DTYPE_F16}, "float16 12"},
	    {"f32", "2x3", {.format = FORMAT_NPY, .offset = 12}, "float32 3"},
	    {"f32", "2x3", {.format = FORMAT_NPY, .has_head = true, .head = 4}, "float32 4"},
	    {"f32", "2x3", {.format = FORMAT_TEXT, .has_head = true, .head = 4}, "float32 2x3"},
	    {"f32",
	     "2x3",
	     {.format = FORMAT_TEXT, .has_shape = true, .shape = {1, {6}}},
	     "float32 6"},
	    {"f32", "2x3", {.format = FORMAT_TEXT, .has_shape = true, .shape = {1, {5}}}, NULL},
	    {"f32", "2x4", {.format = FORMAT_TEXT}, NULL},
	    {"f32", "many", {.format = FORMAT_TEXT}, NULL},
	    {"complex64", NULL, {.format = FORMAT_TEXT}, NULL},
	    {"complex64", "many", {.format = FORMAT_RAW}, "uint8 24"},
	    {"complex64", "many", {.diff = "f"}, "uint8 24"},
	    {"f64", NULL, {.diff = "f"}, "float64 3"},
	    {"f64", NULL, {.format = FORMAT_NPY, .offset = 3}, NULL},
	};
	char found[SHAPE_TEXT_MAX + 32], shape[SHAPE_TEXT_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gpushare_info info = tagged(cases[i].dtype, cases[i].shape, 24);
		struct layout layout;

		if (!layout_find(&cases[i].query, &info, &layout)) {
			if (cases[i].found)
				fail_msg("%zu was refused", i);
			continue;
		}
		shape_text(&layout.shape, shape);
		snprintf(found, sizeof(found), "%s %s", dtype_traits(layout.dtype)->name, shape);
		if (!cases[i].found || strcmp(found, cases[i].found) != 0)
			fail_msg("%zu is %s, not %s", i, found, cases[i].found);
	}
}

static void test_tags(void **state)
{
	struct gpushare_tag tags[2];
	struct shape shape = {2, {2, 3}};

	assert_int_equal(layout_make_tags(DTYPE_BF16, &shape, tags), 2);
	assert_string_equal(tags[0].value, "bfloat16");
	assert_string_equal(tags[1].key, "shape");
	assert_string_equal(tags[1].value, "2x3");
	shape.rank = SHAPE_RANK_MAX;
	for (int i = 0; i < shape.rank; i++)
		shape.extent[i] = UINT64_MAX;
	assert_int_equal(layout_make_tags(DTYPE_BF16, &shape, tags), 1);
}

UNIT_MAIN(UNIT(test_round_trip), UNIT(test_bad), UNIT(test_a_group_that_does_not_matter),
	  UNIT(test_file_names), UNIT(test_layout), UNIT(test_tags))
