/* SPDX-License-Identifier: MIT */
/* The options of the verbs that copy, and of gpushare-attach. */
#include "copy_options.h"

#include <stdlib.h>
#include <string.h>

#include "usage.h"

/* Each function stores the value in `out`, a member of struct copy_request. False: it makes no
 * sense. */
static bool nothing(const char *value, void *out)
{
	(void)value;
	(void)out;
	return true;
}

static bool flag(const char *value, void *out)
{
	(void)value;
	*(bool *)out = true;
	return true;
}

static bool text(const char *value, void *out)
{
	*(const char **)out = value;
	return true;
}

static bool directory(const char *value, void *out)
{
	return *value && text(value, out);
}

static bool size(const char *value, void *out)
{
	return tool_parse_size(value, out);
}

static bool seconds(const char *value, void *out)
{
	return tool_parse_seconds(value, out);
}

static bool number(const char *value, void *out)
{
	return tool_parse_size(value, out) && *(uint64_t *)out;
}

static bool publication(const char *value, void *out)
{
	return number(value, out) && *(uint64_t *)out < COPY_SEQUENCE_MAX;
}

static bool format(const char *value, void *out)
{
	static const char *const names[] = {
#define X(name, text) [FORMAT_##name] = text,
	    FORMATS(X)
#undef X
	};

	for (size_t i = FORMAT_NONE + 1; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(value, names[i])) {
			*(enum format *)out = (enum format)i;
			return true;
		}
	return false;
}

static bool dtype(const char *value, void *out)
{
	enum dtype before = *(enum dtype *)out, given = dtype_parse(value);

	*(enum dtype *)out = given;
	return given && (!before || before == given);
}

static bool shape(const char *value, void *out)
{
	uint64_t count;

	return shape_parse(value, out) && shape_count(out, &count);
}

static bool device(const char *value, void *out)
{
	uint64_t found;

	if (!tool_parse_size(value, &found) || found > 1023)
		return false;
	*(int *)out = (int)found;
	return true;
}

static bool mode(const char *value, void *out)
{
	char *end;
	unsigned long found = strtoul(value, &end, 8);

	*(uint32_t *)out = (uint32_t)found;
	return *value >= '0' && *value <= '7' && !*end && found && !(found & ~0666ul);
}

#define AT(member) offsetof(struct copy_request, member)
#define NO_MARK SIZE_MAX

static const struct copy_option {
	const char *name;
	bool (*parse)(const char *value, void *out);
	size_t at, mark; /* offsets of the value, and of the bool that says that there is one */
	const char *wants;
} options[] = {
    {"-o", text, AT(output), NO_MARK, ""},
    {"--format", format, AT(query.format), NO_MARK,
     "raw, hex, npy or text (--dtype says the type)"},
    {"--dtype", dtype, AT(query.dtype), NO_MARK, "one type of elements, such as f16"},
    {"--shape", shape, AT(query.shape), AT(query.has_shape), "extents, as in 2x3 or 2,3"},
    {"--head", size, AT(query.head), AT(query.has_head), "a number"},
    {"--offset", size, AT(query.offset), AT(query.has_offset), "bytes"},
    {"--length", size, AT(query.length), AT(query.has_length), "bytes"},
    {"--stats", flag, AT(query.stats), NO_MARK, ""},
    {"--sha256", flag, AT(query.sha256), NO_MARK, ""},
    {"--diff", text, AT(query.diff), NO_MARK, ""},
    {"--rate", flag, AT(rate), NO_MARK, ""},
    {"--wait", seconds, AT(wait_ms), NO_MARK, "seconds"},
    {"--follow", nothing, 0, NO_MARK, ""},
    {"--count", number, AT(count), NO_MARK, "a number from 1 on"},
    {"--wait-for", publication, AT(wait_for), NO_MARK, "a publication's number, from 1 on"},
    {"--timeout", seconds, AT(timeout_ms), AT(has_timeout), "seconds"},
    {"--into", text, AT(input), NO_MARK, ""},
    {"--in", text, AT(input), NO_MARK, ""},
    {"--restore", text, AT(input), NO_MARK, ""},
    {"--device", device, AT(device), NO_MARK, "the number of a GPU"},
    {"--mode", mode, AT(mode), NO_MARK, "octal digits of read and write bits, such as 640"},
    {"--group", text, AT(group), NO_MARK, ""},
    {"--dir", directory, AT(registry), NO_MARK, "a directory"},
};

#define COUNT (sizeof(options) / sizeof(*options))

static size_t find(const char *name)
{
	size_t i = 0;

	while (strcmp(options[i].name, name) != 0)
		i++;
	return i;
}

int copy_option_take(const char *option, const char *value, void *user)
{
	struct copy_options *all = user;
	size_t i = find(option);
	char *request = (char *)&all->request;

	all->given |= 1u << i;
	if (options[i].mark != NO_MARK)
		*(bool *)(request + options[i].mark) = true;
	if (options[i].parse(value, request + options[i].at))
		return TOOL_DONE;
	return tool_usage("%s wants %s, not '%s'", option, options[i].wants, value);
}

bool copy_option_given(const struct copy_options *all, const char *name)
{
	return all->given & 1u << find(name);
}

const char *copy_option_beyond(const struct copy_options *all, const char *const usages[])
{
	for (size_t i = 0; i < COUNT; i++) {
		const char *const *usage = usages;

		while (*usage && !usage_find(*usage, options[i].name, NULL))
			usage++;
		if (!*usage && all->given & 1u << i)
			return options[i].name;
	}
	return NULL;
}
