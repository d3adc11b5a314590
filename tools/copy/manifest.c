/* SPDX-License-Identifier: MIT */
#include "manifest.h"

#include <grp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/show.h"
#include "data/layout.h"
#include "protocol.h"

#define NAME_ROOM 200 /* bytes without suffixes; those of a temporary file must fit, too */

static const struct {
	uint32_t flag;
	const char *text;
} flags[] = {
#define X(name, value, text) {value, text},
    GPUSHARE_FLAGS(X)
#undef X
};

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

bool manifest_add(struct manifest *manifest, const struct manifest_entry *entry)
{
	struct manifest_entry *more =
	    reallocarray(manifest->entries, manifest->count + 1, sizeof(*more));

	if (!more)
		return false;
	manifest->entries = more;
	manifest->entries[manifest->count++] = *entry;
	return true;
}

void manifest_finish(struct manifest *manifest)
{
	free(manifest->entries);
	*manifest = (struct manifest){.entries = NULL};
}

void manifest_name_file(const struct gpushare_info *info, bool npy, char out[NAME_MAX + 1])
{
	char all[3 * GPUSHARE_NAME_MAX + 1], end[32] = "";
	size_t used = 0;

	for (const char *at = info->name; *at; at++)
		if (*at == '/' || (at == info->name && *at == '.'))
			used += (size_t)sprintf(all + used, "%%%02X", (unsigned char)*at);
		else
			all[used++] = *at;
	if (used > NAME_ROOM) {
		snprintf(end, sizeof(end), "-%" PRIu64, info->generation);
		used = NAME_ROOM - strlen(end);
	}
	snprintf(out, NAME_MAX + 1, "%.*s%s%s", (int)used, all, end, npy ? ".npy" : ".bin");
}

static json_t *shape_json(const struct shape *shape)
{
	json_t *array = json_array();

	for (int i = 0; array && i < shape->rank; i++)
		json_array_append_new(array, json_integer((json_int_t)shape->extent[i]));
	return array;
}

static json_t *flags_json(uint32_t set)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < COUNT_OF(flags); i++)
		if (set & flags[i].flag)
			json_array_append_new(array, json_string(flags[i].text));
	return array;
}

static json_t *tags_json(const struct gpushare_info *info)
{
	json_t *object = json_object();

	for (uint32_t i = 0; object && i < info->tag_count; i++)
		if (json_object_set_new(object, info->tags[i].key,
					json_string(info->tags[i].value))) {
			json_decref(object);
			object = NULL; /* a value isn't UTF-8, or no memory */
		}
	return object;
}

/* Write the group only if its rights differ from the rights of other users. Prefer the group's
 * name: its number may differ on another host. */
static void rights_json(json_t *object, const struct gpushare_info *info)
{
	const struct group *group = NULL;
	char number[16];

	if (!info->mode)
		return;
	json_object_set_new(object, "mode", json_sprintf("%04o", (unsigned int)info->mode));
	if ((info->mode >> 3 & 7) == (info->mode & 7) || info->owner_gid == UINT32_MAX)
		return;
	group = getgrgid(info->owner_gid);
	snprintf(number, sizeof(number), "%" PRIu32, info->owner_gid);
	json_object_set_new(object, "group", json_string(group ? group->gr_name : number));
}

static json_t *entry_json(const struct manifest_entry *entry)
{
	const struct gpushare_info *info = &entry->info;
	char uuid[TOOL_TEXT_MAX];
	struct shape shape;
	enum dtype dtype;
	json_t *object;

	tool_format_uuid(info->device_uuid, uuid);
	object =
	    json_pack("{ss ss ss sI so so ss ss ss sI sI}", "name", info->name, "file", entry->file,
		      "format", entry->npy ? "npy" : "raw", "size", (json_int_t)info->size, "tags",
		      tags_json(info), "flags", flags_json(info->flags), "device_uuid", uuid,
		      "backing", show_backing(info), "sha256", entry->sha256, "generation",
		      (json_int_t)info->generation, "ttl_s", (json_int_t)info->ttl_s);
	if (object)
		rights_json(object, info);
	if (object && layout_of_tags(info, &dtype, &shape)) {
		json_object_set_new(object, "dtype", json_string(dtype_traits(dtype)->name));
		json_object_set_new(object, "shape", shape_json(&shape));
	}
	return object;
}

char *manifest_format(const struct manifest *manifest)
{
	json_t *buffers = json_array(), *all;
	char *text = NULL;

	for (size_t i = 0; i < manifest->count; i++)
		if (json_array_append_new(buffers, entry_json(&manifest->entries[i]))) {
			json_decref(buffers);
			return NULL;
		}
	all = json_pack("{ss so}", "gpushare", GPUSHARE_VERSION, "buffers", buffers);
	if (all)
		text = json_dumps(all, JSON_INDENT(2) | JSON_SORT_KEYS);
	json_decref(all);
	return text;
}

__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, MANIFEST_WHY_MAX, format, arguments);
	va_end(arguments);
	return false;
}

static bool read_tags(json_t *object, struct gpushare_info *info, char *why)
{
	json_t *tags = json_object_get(object, "tags"), *value;
	const char *key;

	json_object_foreach(tags, key, value)
	{
		struct gpushare_tag *tag = &info->tags[info->tag_count];

		if (info->tag_count == GPUSHARE_TAGS_MAX || !json_is_string(value) ||
		    strlen(key) > GPUSHARE_TAG_KEY_MAX ||
		    json_string_length(value) > GPUSHARE_TAG_VALUE_MAX)
			return refuse(why, "the tags of \"%s\" are too many, or one is not valid",
				      info->name);
		memcpy(tag->key, key, strlen(key) + 1);
		memcpy(tag->value, json_string_value(value), json_string_length(value) + 1);
		info->tag_count++;
	}
	return true;
}

static void read_flags(const json_t *object, struct gpushare_info *info)
{
	const json_t *array = json_object_get(object, "flags");

	for (size_t i = 0; i < json_array_size(array); i++) {
		const char *text = json_string_value(json_array_get(array, i));

		for (size_t j = 0; text && j < COUNT_OF(flags); j++)
			if (!strcmp(text, flags[j].text))
				info->flags |= flags[j].flag;
	}
}

static void read_backing(const json_t *object, struct gpushare_info *info)
{
	const char *text = json_string_value(json_object_get(object, "backing"));

#define X(name, value, word) \
	if (text && !strcmp(text, word)) \
		info->backing = GPUSHARE_BACKING_##name;
	GPUSHARE_BACKINGS(X)
#undef X
}

static bool read_rights(json_t *object, struct manifest_entry *entry, char *why)
{
	const char *text = NULL, *group = "";
	unsigned long mode;
	char *end;

	if (json_unpack(object, "{s?s, s?s}", "mode", &text, "group", &group) ||
	    strlen(group) > MANIFEST_GROUP_MAX)
		return refuse(why, "the mode or group of \"%s\" is not a string, or is too long",
			      entry->info.name);
	strcpy(entry->group, group);
	if (!text)
		return true;
	mode = *text >= '0' && *text <= '7' ? strtoul(text, &end, 8) : 0;
	if (!mode || *end || mode & ~0666ul)
		return refuse(
		    why,
		    "the mode of \"%s\" is not valid: it is octal digits of read and write bits",
		    entry->info.name);
	entry->info.mode = (uint32_t)mode;
	return true;
}

static bool read_entry(json_t *object, struct manifest_entry *entry, char *why)
{
	struct gpushare_info *info = &entry->info;
	const char *name, *file, *sha256, *format;
	json_int_t size, generation = 0, ttl = 0;
	json_error_t error;

	if (json_unpack_ex(object, &error, 0, "{s:s, s:s, s:s, s:s, s:I, s?I, s?I}", "name", &name,
			   "file", &file, "sha256", &sha256, "format", &format, "size", &size,
			   "generation", &generation, "ttl_s", &ttl))
		return refuse(why, "an entry: %s", error.text);
	if (!name_is_valid(name))
		return refuse(why, "\"%.64s\" is not a valid buffer name", name);
	if (strcmp(format, "npy") != 0 && strcmp(format, "raw") != 0)
		return refuse(why, "the format of \"%s\" is neither raw nor npy", name);
	if (size <= 0 || generation < 0 || ttl < 0 || ttl > UINT32_MAX ||
	    strlen(sha256) != DIGEST_TEXT_MAX - 1)
		return refuse(why, "the size, generation, ttl_s or sha256 of \"%s\" is not valid",
			      name);
	if (!*file || strlen(file) > NAME_MAX || strchr(file, '/') || *file == '.' ||
	    text_control(file))
		return refuse(why, "the file of \"%s\" is not a file name in this directory", name);
	strcpy(info->name, name);
	strcpy(entry->file, file);
	strcpy(entry->sha256, sha256);
	entry->npy = !strcmp(format, "npy");
	info->size = (uint64_t)size;
	info->generation = (uint64_t)generation;
	info->ttl_s = (uint32_t)ttl;
	read_flags(object, info);
	read_backing(object, info);
	return read_tags(object, info, why) && read_rights(object, entry, why);
}

static bool read_all(json_t *all, struct manifest *manifest, char *why)
{
	json_t *buffers = json_object_get(all, "buffers"), *object;
	size_t i;

	if (!json_is_array(buffers))
		return refuse(why, "it has no list \"buffers\"");
	json_array_foreach(buffers, i, object)
	{
		struct manifest_entry entry = {.npy = false};

		if (!read_entry(object, &entry, why))
			return false;
		if (!manifest_add(manifest, &entry))
			return refuse(why, "no memory");
	}
	return true;
}

bool manifest_read(FILE *file, struct manifest *out, char why[MANIFEST_WHY_MAX])
{
	struct manifest manifest = {.entries = NULL};
	json_error_t error;
	json_t *all = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	bool good;

	*why = '\0';
	if (!all)
		return refuse(why, "line %d: %s", error.line, error.text);
	good = read_all(all, &manifest, why);
	json_decref(all);
	if (good)
		*out = manifest;
	else
		manifest_finish(&manifest);
	return good;
}
