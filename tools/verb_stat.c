/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "show.h"
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

static int stat_print(const struct gpushare_info *info)
{
	char uuid[TOOL_TEXT_MAX], size[TOOL_TEXT_MAX], age[TOOL_TEXT_MAX],
	    made[TOOL_TEXT_MAX] = "?";
	char command[GPUSHARE_COMMAND_MAX + 1];
	time_t created = (time_t)(info->created_unix_ns / 1000000000u);
	struct tm local;

	tool_format_uuid(info->device_uuid, uuid);
	tool_format_size(info->size, size);
	tool_format_age(show_age(info), age);
	tool_printable(info->owner_command, command, sizeof(command));
	if (localtime_r(&created, &local))
		strftime(made, sizeof(made), "%Y-%m-%d %H:%M:%S %z", &local);
	printf("name:       %s\n", info->name);
	printf("generation: %" PRIu64 "\n", info->generation);
	printf("size:       %" PRIu64 " (%s)\n", info->size, size);
	printf("allocation: offset %" PRIu64 " of %" PRIu64 "\n", info->base_offset,
	       info->base_size);
	printf("isolated:   %s\n",
	       info->isolated
		   ? "yes"
		   : "no: who attaches maps all of its last 2 MiB block, with other memory "
		     "of the owner in it; make it a multiple of 2 MiB, or use gpushare_alloc()");
	printf("gpu:        %s\n", uuid);
	printf("backing:    %s\n", show_backing(info));
	printf("owner:      %s[%" PRId32 "], uid %" PRIu32 "%s\n", command, info->owner_pid,
	       info->owner_uid, info->owner_alive ? "" : ", which has freed it or ended");
	stat_print_life(info);
	printf("attached:   %" PRIu32 "\n", info->attachers);
	if (info->sequence)
		printf("published:  %" PRIu64 ", by %s\n", info->sequence,
		       gpushare_ordering_text(info->ordering));
	printf("created:    %s (%s ago)\n", made, age);
	return tool_flush(TOOL_DONE);
}

static int stat_print_registry(const struct gpushare_registry_info *info)
{
	uint64_t now = (uint64_t)time(NULL), started = info->started_unix_ns / 1000000000u;
	char age[TOOL_TEXT_MAX];

	tool_format_age(now > started ? now - started : 0, age);
	printf("names:       %" PRIu64 "\n", info->names);
	printf("attachments: %" PRIu64 "\n", info->attachments);
	printf("limbo:       %" PRIu64 "\n", info->limbo);
	printf("connections: %" PRIu64 "\n", info->connections);
	printf("waiters:     %" PRIu64 "\n", info->waiters);
	printf("requests:    %" PRIu64 "\n", info->requests);
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

int verb_stat(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct verb_options options;
	struct gpushare_info info;
	int status, code = verb_parse(argc, argv, true, false, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage("stat wants one NAME, or none");
	session = tool_open(options.directory);
	if (!session)
		return TOOL_FAILED;
	if (optind == argc)
		return stat_registry(session, options.json);
	status = gpushare_stat(session, argv[optind], &info);
	if (status)
		return tool_failed(status);
	return options.json ? show_dump(show_json(&info)) : stat_print(&info);
}
