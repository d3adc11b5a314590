/* SPDX-License-Identifier: MIT */
#include "copy_options.h"

#include <stdlib.h>
#include <string.h>

static bool nothing(const char *value, void *out)
{
	(void)value;
	(void)out;
	return true;
}

static bool publication(const char *value, void *out)
{
	return usage_number(value, out) && *(uint64_t *)out < COPY_SEQUENCE_MAX;
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

/* A type is text of that type. */
static bool format_or_type(const char *value, void *out)
{
	struct query *query = (void *)((char *)out - offsetof(struct query, format));

	return dtype_parse(value) ? format("text", out) && dtype(value, &query->dtype)
				  : format(value, out);
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

/* X(name, parser, member, what its value should be, bool to set) */
#define OPTIONS(X, format_parser) \
	X("-o", usage_text, AT(output), NULL, 0) \
	X("--format", format_parser, AT(query.format), \
	  "raw, hex, npy, text or png (--dtype says the type)", 0) \
	X("--dtype", dtype, AT(query.dtype), "one type of elements, such as f16", 0) \
	X("--shape", shape, AT(query.shape), "extents, as in 2x3 or 2,3", AT(query.has_shape)) \
	X("--head", usage_size, AT(query.head), "a number", AT(query.has_head)) \
	X("--offset", usage_size, AT(query.offset), "bytes", AT(query.has_offset)) \
	X("--length", usage_size, AT(query.length), "bytes", AT(query.has_length)) \
	X("--stats", usage_flag, AT(query.stats), NULL, 0) \
	X("--plot", usage_flag, AT(query.plot), NULL, 0) \
	X("--sha256", usage_flag, AT(query.sha256), NULL, 0) \
	X("--diff", usage_text, AT(query.diff), NULL, 0) \
	X("--rate", usage_flag, AT(rate), NULL, 0) \
	X("--wait", usage_seconds, AT(wait_ms), "seconds", 0) \
	X("--follow", nothing, 0, NULL, 0) \
	X("--count", usage_number, AT(count), "a number from 1 on", 0) \
	X("--wait-for", publication, AT(wait_for), "a publication's number, from 1 on", 0) \
	X("--timeout", usage_seconds, AT(timeout_ms), "seconds", AT(has_timeout)) \
	X("--into", usage_text, AT(input), NULL, 0) \
	X("--in", usage_text, AT(input), NULL, 0) \
	X("--restore", usage_text, AT(input), NULL, 0) \
	X("--device", device, AT(device), "the number of a GPU", 0) \
	X("--mode", mode, AT(mode), "octal digits of read and write bits, such as 640", 0) \
	X("--group", usage_text, AT(group), NULL, 0) \
	X("--dir", usage_directory, AT(registry), "a directory", 0)

const struct usage_option copy_options[] = {
#define X(...) {__VA_ARGS__},
    OPTIONS(X, format){NULL, NULL, 0, NULL, 0},
};

const struct usage_option copy_attach_options[] = {
    OPTIONS(X, format_or_type){NULL, NULL, 0, NULL, 0},
#undef X
};
