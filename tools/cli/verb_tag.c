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
	const char *directory, *name;
	bool json;
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

/* Doesn't use getopt(), which would take -KEY for options. Returns -1 to continue, else the exit
 * code. */
static int parse(int argc, char **argv, struct tagging *tagging)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		const char *directory = NULL;
		int code = TOOL_DONE;

		if (!strcmp(word, "--help") || (!tagging->name && !strcmp(word, "-h")))
			return verb_help(argv[0]);
		if (!strcmp(word, "--json"))
			tagging->json = true;
		else if (!strncmp(word, "--dir=", 6))
			directory = word + 6;
		else if (!strcmp(word, "--dir") && i + 1 < argc)
			directory = argv[++i];
		else if (!strcmp(word, "--") && !tagging->name && i + 1 < argc)
			tagging->name = argv[++i];
		else if (!strncmp(word, "--", 2))
			return tool_usage(strcmp(word, "--dir") ? "tag has no option '%s'"
								: "'%s' wants a directory",
					  word);
		else if (!tagging->name && *word != '-')
			tagging->name = word;
		else if (!tagging->name)
			return tool_usage("the NAME must come before '%s'", word);
		else
			code = add(tagging, word);
		if (directory && !option_is_directory(directory, &tagging->directory))
			code = tool_usage("--dir wants a directory, not ''");
		if (code)
			return code;
	}
	return tagging->name ? -1 : tool_usage("tag wants a NAME");
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
	struct tagging tagging = {.name = NULL};
	struct gpushare_info info;
	int status = GPUSHARE_OK, code = parse(argc, argv, &tagging);

	if (code < 0)
		code = check(&tagging);
	if (code >= 0)
		return code;
	if (!tool_check_name(tagging.name))
		return TOOL_FAILED;
	session = tool_open(tagging.directory, false);
	if (!session)
		return TOOL_FAILED;
	if (tagging.count)
		status = gpushare_tag(session, tagging.name, tagging.tags, tagging.count);
	if (!status)
		status = gpushare_stat(session, tagging.name, &info);
	if (status)
		return suggest_failed(session, tagging.name, 0, status);
	if (tagging.count)
		warn(&tagging, &info);
	if (tagging.json)
		return show_dump(show_tags_json(&info));
	return tagging.count ? TOOL_DONE : print(&info);
}
