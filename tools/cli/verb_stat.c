/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/show.h"
#include "common/suggest.h"
#include "options.h"
#include "verbs.h"

static void put_life(const struct gpushare_info *info)
{
	char text[TOOL_TEXT_MAX];

	if (info->missing)
		tool_field("missing",
			   "it can't be attached: since the registry's restart, no process that "
			   "has its memory has reconnected");
	if (info->flags & GPUSHARE_FLAG_READONLY)
		tool_field("read-only", "yes, except for its owner");
	if (!(info->flags & GPUSHARE_FLAG_KEEP))
		return;
	tool_format_age(info->owner_alive ? info->ttl_s : info->ttl_left_s, text);
	if (!info->ttl_s)
		tool_field("kept", "until 'gpushare rm %s'", info->name);
	else if (info->owner_alive)
		tool_field("kept", "for %s after its owner has ended", text);
	else
		tool_field("kept", "for %s more", text);
}

static int put_holder(const struct gpushare_holder *holder, void *unused)
{
	char text[SHOW_CELL_MAX];

	(void)unused;
	show_holder(holder, text);
	tool_field("held by", "%s, uid %" PRIu32 ", %" PRIu32 " time%s%s", text, holder->uid,
		   holder->count, holder->count == 1 ? "" : "s",
		   holder->own ? ", the owner's process itself" : "");
	return 0;
}

static void put_extent(const struct gpushare_info *info)
{
	char size[TOOL_TEXT_MAX];

	tool_format_size(info->size, size);
	tool_field("size", "%" PRIu64 " (%s)", info->size, size);
	tool_field("allocation", "offset %" PRIu64 " of %" PRIu64, info->base_offset,
		   info->base_size);
	tool_field("isolated", "%s",
		   info->isolated ? "yes"
				  : "no: its last block of 2 MiB also holds other memory of the "
				    "owner, which attachers map too; to avoid this, allocate a "
				    "multiple of 2 MiB, or use gpushare_alloc()");
}

static void put_tags(const struct gpushare_info *info)
{
	char value[GPUSHARE_TAG_VALUE_MAX + 1];

	for (uint32_t i = 0; i < info->tag_count; i++) {
		tool_printable(info->tags[i].value, value, sizeof(value));
		tool_field("tag", "%s=%s", info->tags[i].key, value);
	}
}

static int stat_print(struct gpushare_session *session, const struct gpushare_info *info)
{
	char text[SHOW_CELL_MAX], age[TOOL_TEXT_MAX];

	tool_field("name", "%s", info->name);
	tool_field("generation", "%" PRIu64, info->generation);
	if (info->backing != GPUSHARE_BACKING_EVENT)
		put_extent(info);
	tool_format_uuid(info->device_uuid, text);
	tool_field("gpu", "%s", text);
	tool_field("backing", "%s", show_backing(info));
	show_owner(info, text);
	tool_field("owner", "%s, uid %" PRIu32 "%s", text, info->owner_uid,
		   info->owner_alive ? "" : ", which has freed it or ended");
	show_rights(info, text);
	tool_field("rights", "%s", text);
	put_life(info);
	tool_field("attachments", "%" PRIu32, info->attachers);
	/* Ignore errors: a registry of an older version may not know this request. */
	gpushare_holders(session, info->name, info->generation, put_holder, NULL);
	put_tags(info);
	if (info->sequence)
		tool_field("published", "%" PRIu64 ", by %s", info->sequence,
			   gpushare_ordering_text(info->ordering));
	show_time(info->created_unix_ns, text);
	tool_format_age(show_since(info->created_unix_ns), age);
	tool_field("created", "%s (%s ago)", text, age);
	return tool_flush(TOOL_DONE);
}

static void put_memory(const struct gpushare_registry_info *info)
{
	char kept[TOOL_TEXT_MAX], limit[TOOL_TEXT_MAX];

	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *info->by_backing[i].what; i++) {
		tool_format_size(info->by_backing[i].bytes, kept);
		tool_field(info->by_backing[i].what, "%" PRIu64 " name%s, %s",
			   info->by_backing[i].count, info->by_backing[i].count == 1 ? "" : "s",
			   kept);
	}
	tool_format_size(info->kept_bytes, kept);
	tool_format_size(info->kept_limit, limit);
	if (info->kept_limit)
		tool_field("kept", "%s of %s", kept, limit);
}

static int stat_print_registry(const struct gpushare_registry_info *info)
{
	char age[TOOL_TEXT_MAX];

	tool_field("names", "%" PRIu64, info->names);
	tool_field("attachments", "%" PRIu64, info->attachments);
	tool_field("deferred", "%" PRIu64, info->deferred);
	tool_field("connections", "%" PRIu64, info->connections);
	tool_field("waiters", "%" PRIu64, info->waiters);
	tool_field("requests", "%" PRIu64, info->requests);
	put_memory(info);
	if (*info->version)
		tool_field("version", "%s, pid %" PRId32, info->version, info->pid);
	tool_format_age(show_since(info->started_unix_ns), age);
	tool_field("started", "%s ago", age);
	return tool_flush(TOOL_DONE);
}

static int stat_registry(struct gpushare_session *session, bool json)
{
	struct gpushare_registry_info info;
	int status = gpushare_stat_registry(session, &info);

	if (status)
		return tool_failed(status);
	return json ? show_dump(show_registry_json(&info)) : stat_print_registry(&info);
}

int verb_stat(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct options options;
	struct gpushare_info info;
	int status, code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage("stat wants one NAME, or none");
	if (optind < argc && !tool_check_name(argv[optind]))
		return TOOL_FAILED;
	session = tool_open(options.directory, false);
	if (!session)
		return TOOL_FAILED;
	if (optind == argc)
		return stat_registry(session, options.json);
	status = gpushare_stat(session, argv[optind], &info);
	if (status)
		return suggest_failed(session, argv[optind], 0, status);
	return options.json ? show_dump(show_json_holders(&info, session))
			    : stat_print(session, &info);
}
