/* SPDX-License-Identifier: MIT */
#include "show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tool.h"

const char *show_backing(const struct gpushare_info *info)
{
	switch (info->backing) {
#define X(name, value, text) \
	case GPUSHARE_BACKING_##name: \
		return text;
		GPUSHARE_BACKINGS(X)
#undef X
	}
	return "unknown";
}

uint64_t show_age(const struct gpushare_info *info)
{
	uint64_t now = (uint64_t)time(NULL), made = info->created_unix_ns / 1000000000u;

	return now > made ? now - made : 0;
}

static void show_add(char out[SHOW_STATE_MAX], const char *word)
{
	size_t length = strlen(out);

	snprintf(out + length, SHOW_STATE_MAX - length, "%s%s", length ? "," : "", word);
}

void show_state(const struct gpushare_info *info, char out[SHOW_STATE_MAX])
{
	char word[TOOL_TEXT_MAX + 8], left[TOOL_TEXT_MAX];

	*out = '\0';
	if (info->missing)
		show_add(out, "missing");
	if (info->flags & GPUSHARE_FLAG_READONLY)
		show_add(out, "read-only");
	if (!(info->flags & GPUSHARE_FLAG_KEEP))
		return;
	show_add(out, info->owner_alive ? "kept" : "kept,owner-gone");
	if (!info->ttl_s)
		return;
	tool_format_age(info->owner_alive ? info->ttl_s : info->ttl_left_s, left);
	snprintf(word, sizeof(word), info->owner_alive ? "ttl=%s" : "left=%s", left);
	show_add(out, word);
}

json_t *show_json(const struct gpushare_info *info)
{
	char uuid[TOOL_TEXT_MAX], command[GPUSHARE_COMMAND_MAX + 1];

	tool_format_uuid(info->device_uuid, uuid);
	tool_printable(info->owner_command, command, sizeof(command));
	return json_pack(
	    "{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:b, s:b, "
	    "s:b, s:I, "
	    "s:I, s:b, s:b, s:I, s:s}",
	    "name", info->name, "generation", (json_int_t)info->generation, "size",
	    (json_int_t)info->size, "base_offset", (json_int_t)info->base_offset, "base_size",
	    (json_int_t)info->base_size, "held", (json_int_t)info->base_size, "isolated",
	    info->isolated, "gpu", uuid, "backing", show_backing(info), "owner_pid",
	    (json_int_t)info->owner_pid, "owner_uid", (json_int_t)info->owner_uid, "owner_started",
	    (json_int_t)info->owner_started, "owner_command", command, "attachers",
	    (json_int_t)info->attachers, "created_unix_ns", (json_int_t)info->created_unix_ns,
	    "keep", (info->flags & GPUSHARE_FLAG_KEEP) != 0, "readonly",
	    (info->flags & GPUSHARE_FLAG_READONLY) != 0, "owner_alive", info->owner_alive, "ttl_s",
	    (json_int_t)info->ttl_s, "ttl_left_s", (json_int_t)info->ttl_left_s, "in_limbo",
	    info->in_limbo, "missing", info->missing, "sequence", (json_int_t)info->sequence,
	    "ordering", gpushare_ordering_text(info->ordering));
}

json_t *show_registry_json(const struct gpushare_registry_info *info)
{
	return json_pack(
	    "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "names", (json_int_t)info->names, "attachments",
	    (json_int_t)info->attachments, "limbo", (json_int_t)info->limbo, "connections",
	    (json_int_t)info->connections, "waiters", (json_int_t)info->waiters, "requests",
	    (json_int_t)info->requests, "started_unix_ns", (json_int_t)info->started_unix_ns);
}

int show_dump(json_t *value)
{
	int bad;

	if (!value) {
		tool_error("no memory for JSON");
		return TOOL_FAILED;
	}
	bad = json_dumpf(value, stdout, JSON_INDENT(2));
	json_decref(value);
	if (bad) {
		tool_error("writing JSON to standard output failed");
		return TOOL_FAILED;
	}
	putchar('\n');
	return tool_flush(TOOL_DONE);
}
