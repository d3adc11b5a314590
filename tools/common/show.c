/* SPDX-License-Identifier: MIT */
#include "show.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

uint64_t show_since(uint64_t unix_ns)
{
	uint64_t now = (uint64_t)time(NULL), then = unix_ns / 1000000000u;

	return now > then ? now - then : 0;
}

void show_time(uint64_t unix_ns, char out[TOOL_TEXT_MAX])
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm local;

	strcpy(out, "?");
	if (localtime_r(&seconds, &local))
		strftime(out, TOOL_TEXT_MAX, "%Y-%m-%d %H:%M:%S %z", &local);
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

static json_t *info_json(const struct gpushare_info *info)
{
	char uuid[TOOL_TEXT_MAX], command[GPUSHARE_COMMAND_MAX + 1];

	tool_format_uuid(info->device_uuid, uuid);
	tool_printable(info->owner_command, command, sizeof(command));
	return json_pack(
	    "{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:b, "
	    "s:b, s:b, s:I, s:I, s:b, s:b, s:I, s:s, s:o, s:I}",
	    "name", info->name, "generation", (json_int_t)info->generation, "size",
	    (json_int_t)info->size, "base_offset", (json_int_t)info->base_offset, "base_size",
	    (json_int_t)info->base_size, "held", (json_int_t)info->base_size, "isolated",
	    info->isolated, "gpu", uuid, "backing", show_backing(info), "owner_pid",
	    (json_int_t)info->owner_pid, "owner_uid", (json_int_t)info->owner_uid, "owner_started",
	    (json_int_t)info->owner_started, "owner_command", command, "attachers",
	    (json_int_t)info->attachers, "attachments", (json_int_t)info->attachers,
	    "created_unix_ns", (json_int_t)info->created_unix_ns, "keep",
	    (info->flags & GPUSHARE_FLAG_KEEP) != 0, "readonly",
	    (info->flags & GPUSHARE_FLAG_READONLY) != 0, "owner_alive", info->owner_alive, "ttl_s",
	    (json_int_t)info->ttl_s, "ttl_left_s", (json_int_t)info->ttl_left_s, "deferred",
	    info->deferred, "missing", info->missing, "sequence", (json_int_t)info->sequence,
	    "ordering", gpushare_ordering_text(info->ordering), "mode",
	    json_sprintf("%04o", (unsigned int)info->mode), "owner_gid",
	    (json_int_t)info->owner_gid);
}

json_t *show_tags_json(const struct gpushare_info *info)
{
	json_t *tags = json_object();
	char value[GPUSHARE_TAG_VALUE_MAX + 1];

	for (uint32_t i = 0; i < info->tag_count; i++) {
		tool_printable(info->tags[i].value, value, sizeof(value));
		json_object_set_new(tags, info->tags[i].key, json_string(value));
	}
	return tags;
}

json_t *show_json(const struct gpushare_info *info)
{
	json_t *all = info_json(info);

	if (all && json_object_set_new(all, "tags", show_tags_json(info))) {
		json_decref(all);
		return NULL;
	}
	return all;
}

static json_t *counts_json(const struct gpushare_count counts[GPUSHARE_COUNTS_MAX], bool bytes)
{
	json_t *all = json_object();

	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *counts[i].what; i++) {
		json_int_t count = (json_int_t)counts[i].count;

		json_object_set_new(all, counts[i].what,
				    bytes ? json_pack("{s:I, s:I}", "names", count, "bytes",
						      (json_int_t)counts[i].bytes)
					  : json_integer(count));
	}
	return all;
}

json_t *show_registry_json(const struct gpushare_registry_info *info)
{
	return json_pack(
	    "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:o, s:o, "
	    "s:o, "
	    "s:o, s:o, s:o}",
	    "names", (json_int_t)info->names, "attachments", (json_int_t)info->attachments,
	    "deferred", (json_int_t)info->deferred, "connections", (json_int_t)info->connections,
	    "waiters", (json_int_t)info->waiters, "requests", (json_int_t)info->requests,
	    "started_unix_ns", (json_int_t)info->started_unix_ns, "deferred_bytes",
	    (json_int_t)info->deferred_bytes, "kept_bytes", (json_int_t)info->kept_bytes,
	    "kept_limit", (json_int_t)info->kept_limit, "descriptors",
	    (json_int_t)info->descriptors, "hidden", (json_int_t)info->hidden, "version",
	    info->version, "pid", (json_int_t)info->pid, "lock_held_max_us",
	    (json_int_t)info->lock_held_max_us, "requests_by_verb",
	    counts_json(info->by_verb, false), "refusals_by_status",
	    counts_json(info->by_status, false), "backings", counts_json(info->by_backing, true),
	    "limits_reached", counts_json(info->by_limit, false), "drops",
	    counts_json(info->by_drop, false), "audit", counts_json(info->by_audit, false));
}

static void name_process(const char *command, int32_t pid, char out[SHOW_CELL_MAX])
{
	char printable[GPUSHARE_COMMAND_MAX + 1];

	tool_printable(command, printable, sizeof(printable));
	snprintf(out, SHOW_CELL_MAX, "%s[%d]", printable, (int)pid);
}

void show_owner(const struct gpushare_info *info, char out[SHOW_CELL_MAX])
{
	name_process(info->owner_command, info->owner_pid, out);
}

void show_holder(const struct gpushare_holder *holder, char out[SHOW_CELL_MAX])
{
	name_process(holder->command, holder->pid, out);
}

void show_rights(const struct gpushare_info *info, char out[SHOW_CELL_MAX])
{
	static const char letters[] = "rw-rw-rw-"; /* letter i stands for bit 8 - i of the mode */
	const struct passwd *user = getpwuid(info->owner_uid);
	const struct group *group = getgrgid(info->owner_gid);
	char bits[sizeof(letters)], uid[16], gid[16];

	for (unsigned int i = 0; i < sizeof(letters) - 1; i++)
		bits[i] = (char)(info->mode >> (8 - i) & 1 ? letters[i] : '-');
	bits[sizeof(letters) - 1] = '\0';
	snprintf(uid, sizeof(uid), "%" PRIu32, info->owner_uid);
	snprintf(gid, sizeof(gid), "%" PRIu32, info->owner_gid);
	if (info->owner_gid == UINT32_MAX)
		strcpy(gid, "-");
	snprintf(out, SHOW_CELL_MAX, "%s %s:%s", bits, user ? user->pw_name : uid,
		 group ? group->gr_name : gid);
}

bool show_has_rights(const struct gpushare_info *info)
{
	return info->mode != 0600 || info->owner_uid != geteuid();
}

void show_tags(const struct gpushare_info *info, char out[SHOW_CELL_MAX])
{
	char value[GPUSHARE_TAG_VALUE_MAX + 1];
	size_t length = 0;

	*out = '\0';
	for (uint32_t i = 0; i < info->tag_count && length < SHOW_CELL_MAX; i++) {
		tool_printable(info->tags[i].value, value, sizeof(value));
		length += (size_t)snprintf(out + length, SHOW_CELL_MAX - length, "%s%s=%s",
					   i ? " " : "", info->tags[i].key, value);
	}
}

static int add_holder(const struct gpushare_holder *holder, void *array)
{
	char command[GPUSHARE_COMMAND_MAX + 1];

	tool_printable(holder->command, command, sizeof(command));
	return json_array_append_new(
	    array,
	    json_pack("{s:I, s:I, s:I, s:s, s:I, s:b}", "pid", (json_int_t)holder->pid, "uid",
		      (json_int_t)holder->uid, "started", (json_int_t)holder->started, "command",
		      command, "count", (json_int_t)holder->count, "own", holder->own));
}

json_t *show_json_holders(const struct gpushare_info *info, struct gpushare_session *session)
{
	json_t *all = show_json(info), *holders = json_array();

	gpushare_holders(session, info->name, info->generation, add_holder, holders);
	if (!json_object_set_new(all, "holders", holders))
		return all;
	json_decref(all);
	return NULL;
}

static int dump(json_t *value, size_t flags)
{
	int bad;

	if (!value) {
		tool_error("no memory for JSON");
		return TOOL_FAILED;
	}
	bad = json_dumpf(value, stdout, flags);
	json_decref(value);
	if (bad) {
		tool_error("writing JSON to standard output failed");
		return TOOL_FAILED;
	}
	putchar('\n');
	return tool_flush(TOOL_DONE);
}

int show_dump(json_t *value)
{
	return dump(value, JSON_INDENT(2));
}

int show_dump_line(json_t *value)
{
	return dump(value, JSON_COMPACT);
}
