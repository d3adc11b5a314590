/* SPDX-License-Identifier: MIT */
/* The text that the tools print: metrics, tags and owners. */
#include "unit.h"

#include "../../tools/cli/metrics.h"
#include "../../tools/common/show.h"

static char *text_of(const struct gpushare_registry_info *info)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_non_null(to);
	metrics_print(to, info);
	fclose(to);
	return text;
}

static void escaped(void **state)
{
	char out[64];

	metrics_escape("plain", out);
	assert_string_equal(out, "plain");
	metrics_escape("a\"b\\c\nd", out);
	assert_string_equal(out, "a\\\"b\\\\c\\nd");
	metrics_escape("\"\"\\\\", out);
	assert_string_equal(out, "\\\"\\\"\\\\\\\\");
	metrics_escape("", out);
	assert_string_equal(out, "");
}

static void nothing_but_down(void **state)
{
	char *text = text_of(NULL);

	assert_string_equal(text, "# HELP gpushare_up Whether the registry can be reached.\n"
				  "# TYPE gpushare_up gauge\n"
				  "gpushare_up 0\n");
	free(text);
}

static void numbers_and_families(void **state)
{
	struct gpushare_registry_info info = {
	    .names = UINT64_MAX,
	    .started_unix_ns = 1700000000007000000,
	    .version = "0.\"1",
	    .by_verb = {{.what = "attach", .count = 7}, {.what = "odd\"\\", .count = 1}},
	    .by_backing = {{.what = "ipc", .count = 2, .bytes = 5}},
	};
	char *text = text_of(&info);

	assert_non_null(strstr(text, "\ngpushare_up 1\n"));
	assert_non_null(strstr(text, "\ngpushare_names 18446744073709551615\n"));
	assert_non_null(strstr(text, "\ngpushare_start_time_seconds 1700000000.007\n"));
	assert_non_null(strstr(text, "{version=\"0.\\\"1\"} 1\n"));
	assert_non_null(strstr(text, "# TYPE gpushare_requests_total counter\n"
				     "gpushare_requests_total{verb=\"attach\"} 7\n"
				     "gpushare_requests_total{verb=\"odd\\\"\\\\\"} 1\n"));
	assert_non_null(strstr(text, "gpushare_buffers{backing=\"ipc\"} 2\n"));
	assert_non_null(strstr(text, "gpushare_buffer_bytes{backing=\"ipc\"} 5\n"));
	/* without refusals the family is still there */
	assert_non_null(strstr(text, "# TYPE gpushare_refusals_total counter\n"));
	free(text);
}

static void every_kind_that_there_is_room_for(void **state)
{
	struct gpushare_registry_info info = {.names = 0};
	char *text;

	for (int i = 0; i < GPUSHARE_COUNTS_MAX; i++)
		snprintf(info.by_status[i].what, sizeof(info.by_status[i].what), "E_%d", i);
	text = text_of(&info);
	assert_non_null(strstr(text, "{status=\"E_0\"} 0\n"));
	assert_non_null(strstr(text, "{status=\"E_31\"} 0\n"));
	free(text);
}

static void tags_and_owners(void **state)
{
	struct gpushare_info info = {
	    .owner_pid = 7,
	    .owner_command = "a\033[2J",
	    .tag_count = 2,
	    .tags = {{"dtype", "f16"}, {"note", "\033x"}},
	};
	struct gpushare_holder holder = {.pid = -1, .command = "h"};
	char out[SHOW_CELL_MAX];
	json_t *json;

	show_owner(&info, out);
	assert_string_equal(out, "a?[2J[7]");
	show_holder(&holder, out);
	assert_string_equal(out, "h[-1]");
	show_tags(&info, out);
	assert_string_equal(out, "dtype=f16 note=?x");
	json = show_json(&info);
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(json, "tags"), "note")), "?x");
	json_decref(json);
	info.tag_count = GPUSHARE_TAGS_MAX;
	for (int i = 0; i < GPUSHARE_TAGS_MAX; i++) {
		memset(info.tags[i].key, 'k', GPUSHARE_TAG_KEY_MAX);
		memset(info.tags[i].value, 'v', GPUSHARE_TAG_VALUE_MAX);
	}
	show_tags(&info, out);
	assert_int_equal(strlen(out), SHOW_CELL_MAX - 1);
	info.tag_count = 0;
	show_tags(&info, out);
	assert_string_equal(out, "");
}

UNIT_MAIN(UNIT(escaped), UNIT(nothing_but_down), UNIT(numbers_and_families),
	  UNIT(every_kind_that_there_is_room_for), UNIT(tags_and_owners))
