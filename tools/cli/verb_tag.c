/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/show.h"
#include "common/suggest.h"
#include "data/layout.h"
#include "options.h"
#include "verbs.h"

struct tagging {
	struct gpushare_tag tags[2 * GPUSHARE_TAGS_MAX];
	size_t count;
};

/* Add KEY=VALUE; or for -KEY, add an empty value, which removes the tag. */
static int add(struct tagging *tagging, const char *word)
{
	struct gpushare_tag *tag = &tagging->tags[tagging->count];
	bool away = *word == '-';
	const char *key = word + away, *equals = strchr(key, '=');
	size_t length = equals ? (size_t)(equals - key) : strlen(key);

	if (away == (equals != NULL) || !length || (equals && !equals[1]))
		return tool_usage("'%s' is neither KEY=VALUE nor -KEY, which removes a tag", word);
	if (length > GPUSHARE_TAG_KEY_MAX ||
	    (equals && strlen(equals + 1) > GPUSHARE_TAG_VALUE_MAX))
		return tool_usage(
		    "'%.64s...' is too long: a KEY has up to %d bytes, a VALUE up to %d", word,
		    GPUSHARE_TAG_KEY_MAX, GPUSHARE_TAG_VALUE_MAX);
	if (tagging->count == GPUSHARE_TAGS_MAX)
		return tool_usage("at most %d tags at a time; no buffer can have more",
				  GPUSHARE_TAGS_MAX);
	memcpy(tag->key, key, length);
	if (equals)
		strcpy(tag->value, equals + 1);
	tagging->count++;
	return TOOL_DONE;
}

/* Take the words -KEY that follow NAME out of argv, because getopt() would take them for options.
 * Returns TOOL_DONE, or the exit code. */
static int take_removals(int *argc, char **argv, struct tagging *tagging)
{
	bool named = false;
	int kept = 1, code = TOOL_DONE;

	for (int i = 1; i < *argc && !code; i++) {
		if (named && argv[i][0] == '-' && argv[i][1] != '-') {
			code = add(tagging, argv[i]);
			continue;
		}
		named |= *argv[i] != '-' && strcmp(argv[i - 1], "--dir") != 0;
		argv[kept++] = argv[i];
	}
	argv[kept] = NULL;
	*argc = kept;
	return code;
}

static const char *value_of(const struct tagging *tagging, const char *key)
{
	for (size_t i = 0; i < tagging->count; i++)
		if (!strcmp(tagging->tags[i].key, key) && *tagging->tags[i].value)
			return tagging->tags[i].value;
	return NULL;
}

/* Check that the dtype and shape tags can be parsed. Returns -1 to continue, else the exit code. */
static int check(const struct tagging *tagging)
{
	const char *type = value_of(tagging, LAYOUT_DTYPE_TAG);
	const char *text = value_of(tagging, LAYOUT_SHAPE_TAG);
	struct shape shape;

	if (type && !dtype_parse(type))
		return tool_usage("dtype=%s is not a known type; the types are: "
#define X(id, alias, ...) alias " "
				  DTYPES(X)
#undef X
				      "and long names such as float32",
				  type);
	if (text && !shape_parse(text, &shape))
		return tool_usage("shape=%s is not a shape such as 2,3 or 2x3", text);
	return -1;
}

/* Warn if dtype and shape don't fit the buffer's size. That is no error, because a later call
 * may set tags that fit. */
static void warn(const struct tagging *tagging, const struct gpushare_info *info)
{
	struct shape shape = {.rank = 0};
	enum dtype dtype = DTYPE_NONE;
	bool has_shape = false;
	uint64_t size = 0;

	if ((value_of(tagging, LAYOUT_DTYPE_TAG) || value_of(tagging, LAYOUT_SHAPE_TAG)) &&
	    layout_read_tags(info, &dtype, &shape, &has_shape) && dtype && has_shape &&
	    (!shape_size(&shape, dtype_traits(dtype)->size, &size) || size != info->size))
		tool_error("dtype and shape describe %" PRIu64 " bytes; '%s' has %" PRIu64, size,
			   info->name, info->size);
}

static int print(const struct gpushare_info *info)
{
	char value[GPUSHARE_TAG_VALUE_MAX + 1];

	for (uint32_t i = 0; i < info->tag_count; i++) {
		tool_printable(info->tags[i].value, value, sizeof(value));
		printf("%s=%s\n", info->tags[i].key, value);
	}
	return tool_flush(TOOL_DONE);
}

int verb_tag(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct tagging tagging = {.count = 0};
	struct options options = {.given = 0};
	struct gpushare_info info;
	const char *name;
	int status = GPUSHARE_OK, code = take_removals(&argc, argv, &tagging);

	if (!code)
		code = options_parse(argc, argv, &options);
	if (code >= 0)
		return code;
	name = argv[optind];
	if (!name)
		return tool_usage("tag wants a NAME");
	for (int i = optind + 1; i < argc; i++)
		if (add(&tagging, argv[i]))
			return TOOL_USAGE;
	code = check(&tagging);
	if (code >= 0)
		return code;
	if (!tool_check_name(name))
		return TOOL_FAILED;
	session = tool_open(options.directory, false);
	if (!session)
		return TOOL_FAILED;
	if (tagging.count)
		status = gpushare_tag(session, name, tagging.tags, tagging.count);
	if (!status)
		status = gpushare_stat(session, name, &info);
	if (status)
		return suggest_failed(session, name, 0, status);
	if (tagging.count)
		warn(&tagging, &info);
	if (options.json)
		return show_dump(show_tags_json(&info));
	return tagging.count ? TOOL_DONE : print(&info);
}
