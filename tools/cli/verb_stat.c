/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "common/show.h"
#include "common/suggest.h"
#include "verbs.h"

static void stat_print_life(const struct gpushare_info *info)
{
	char text[TOOL_TEXT_MAX];

	if (info->missing)
		printf("missing:    it can't be attached: after the registry's restart nobody has "
		       "brought its memory back so far\n");
	if (info->flags & GPUSHARE_FLAG_READONLY)
		printf("read-only:  yes, but for its owner\n");
	if (!(info->flags & GPUSHARE_FLAG_KEEP))
		return;
	tool_format_age(info->owner_alive ? info->ttl_s : info->ttl_left_s, text);
	if (!info->ttl_s)
		printf("kept:       until 'gpushare rm %s'\n", info->name);
	else if (info->owner_alive)
		printf("kept:       for %s after its owner has gone\n", text);
	else
		printf("kept:       for %s more\n", text);
}

static int print_holder(const struct gpushare_holder *holder, void *user)
{
	char text[SHOW_CELL_MAX];

	(void)user;
	show_holder(holder, text);
	printf("held by:    %s, uid %" PRIu32 ", %" PRIu32 " time%s%s\n", text, holder->uid,
	       holder->count, holder->count == 1 ? "" : "s",
	       holder->own ? ", the owner's process itself" : "");
	return 0;
}

/* Ignores errors: a registry of an older version may not know the request. */
static void stat_print_holders(struct gpushare_session *session, const struct gpushare_info *info)
{
	gpushare_holders(session, info->name, info->generation, print_holder, NULL);
}

static void stat_print_extent(const struct gpushare_info *info)
{
	char size[TOOL_TEXT_MAX];

	tool_format_size(info->size, size);
	printf("size:       %" PRIu64 " (%s)\n", info->size, size);
	printf("allocation: offset %" PRIu64 " of %" PRIu64 "\n", info->base_offset,
	       info->base_size);
	printf("isolated:   %s\n",
	       info->isolated
		   ? "yes"
		   : "no: who attaches maps all of its last 2 MiB block, with other memory "
		     "of the owner in it; make it a multiple of 2 MiB, or use gpushare_alloc()");
}

static int stat_print(struct gpushare_session *session, const struct gpushare_info *info)
{
	char uuid[TOOL_TEXT_MAX], age[TOOL_TEXT_MAX], made[TOOL_TEXT_MAX] = "?";
	char owner[SHOW_CELL_MAX], rights[SHOW_CELL_MAX], value[GPUSHARE_TAG_VALUE_MAX + 1];
	time_t created = (time_t)(info->created_unix_ns / 1000000000u);
	struct tm local;

	tool_format_uuid(info->device_uuid, uuid);
	tool_format_age(show_age(info), age);
	show_owner(info, owner);
	if (localtime_r(&created, &local))
		strftime(made, sizeof(made), "%Y-%m-%d %H:%M:%S %z", &local);
	printf("name:       %s\n", info->name);
	printf("generation: %" PRIu64 "\n", info->generation);
	if (info->backing != GPUSHARE_BACKING_EVENT)
		stat_print_extent(info);
	printf("gpu:        %s\n", uuid);
	printf("backing:    %s\n", show_backing(info));
	printf("owner:      %s, uid %" PRIu32 "%s\n", owner, info->owner_uid,
	       info->owner_alive ? "" : ", which has freed it or ended");
	show_rights(info, rights);
	printf("rights:     %s\n", rights);
	stat_print_life(info);
	printf("attached:   %" PRIu32 "\n", info->attachers);
	stat_print_holders(session, info);
	for (uint32_t i = 0; i < info->tag_count; i++) {
		tool_printable(info->tags[i].value, value, sizeof(value));
		printf("tag:        %s=%s\n", info->tags[i].key, value);
	}
	if (info->sequence)
		printf("published:  %" PRIu64 ", by %s\n", info->sequence,
		       gpushare_ordering_text(info->ordering));
	printf("created:    %s (%s ago)\n", made, age);
	return tool_flush(TOOL_DONE);
}

static void stat_print_memory(const struct gpushare_registry_info *info)
{
	char kept[TOOL_TEXT_MAX], limit[TOOL_TEXT_MAX];

	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *info->by_backing[i].what; i++) {
		tool_format_size(info->by_backing[i].bytes, kept);
		printf("%-12s %" PRIu64 " name%s, %s\n", info->by_backing[i].what,
		       info->by_backing[i].count, info->by_backing[i].count == 1 ? "" : "s", kept);
	}
	tool_format_size(info->kept_bytes, kept);
	tool_format_size(info->kept_limit, limit);
	if (info->kept_limit)
		printf("kept:        %s of %s\n", kept, limit);
	if (*info->version)
		printf("version:     %s, pid %" PRId32 "\n", info->version, info->pid);
}

static int stat_print_registry(const struct gpushare_registry_info *info)
{
	uint64_t now = (uint64_t)time(NULL), started = info->started_unix_ns / 1000000000u;
	char age[TOOL_TEXT_MAX];

	tool_format_age(now > started ? now - started : 0, age);
	printf("names:       %" PRIu64 "\n", info->names);
	printf("attachments: %" PRIu64 "\n", info->attachments);
	printf("deferred:       %" PRIu64 "\n", info->deferred);
	printf("connections: %" PRIu64 "\n", info->connections);
	printf("waiters:     %" PRIu64 "\n", info->waiters);
	printf("requests:    %" PRIu64 "\n", info->requests);
	stat_print_memory(info);
	printf("started:     %s ago\n", age);
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

static int stat_json(struct gpushare_session *session, const struct gpushare_info *info)
{
	json_t *all = show_json(info), *holders = json_array();

	/* If the request for holders fails, the list stays empty. */
	gpushare_holders(session, info->name, info->generation, show_holder_visit, holders);
	if (all && json_object_set_new(all, "holders", holders)) {
		json_decref(all);
		all = NULL;
	}
	return show_dump(all);
}

int verb_stat(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct verb_options options;
	struct gpushare_info info;
	int status, code = verb_parse(argc, argv, &options);

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
	return options.json ? stat_json(session, &info) : stat_print(session, &info);
}
