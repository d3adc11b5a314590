/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"
#include "verbs.h"

#define OWNER_MAX (GPUSHARE_COMMAND_MAX + sizeof("[-2147483648]"))

struct events {
	struct gpushare_info *all;
	size_t count, room;
};

static int events_visit(const struct gpushare_info *info, void *user)
{
	struct events *events = user;

	if (events->count == events->room) {
		size_t room = events->room ? 2 * events->room : 64;
		struct gpushare_info *more = realloc(events->all, room * sizeof(*more));

		if (!more)
			return 1;
		events->all = more;
		events->room = room;
	}
	events->all[events->count++] = *info;
	return 0;
}

static void owner_of(const struct gpushare_info *info, char out[OWNER_MAX])
{
	char command[GPUSHARE_COMMAND_MAX + 1];

	tool_printable(info->owner_command, command, sizeof(command));
	snprintf(out, OWNER_MAX, "%s[%" PRId32 "]", command, info->owner_pid);
}

static int wider(int width, const char *text)
{
	return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static void events_print(const struct events *events)
{
	int name = (int)strlen("NAME"), owner = (int)strlen("OWNER");
	char who[OWNER_MAX], gpu[TOOL_TEXT_MAX], age[TOOL_TEXT_MAX];

	for (size_t i = 0; i < events->count; i++) {
		owner_of(&events->all[i], who);
		name = wider(name, events->all[i].name);
		owner = wider(owner, who);
	}
	printf("%-*s  %-40s  %-*s  OPENED  AGE\n", name, "NAME", "GPU", owner, "OWNER");
	for (size_t i = 0; i < events->count; i++) {
		const struct gpushare_info *info = &events->all[i];

		owner_of(info, who);
		tool_format_uuid(info->device_uuid, gpu);
		tool_format_age(show_age(info), age);
		printf("%-*s  %-40s  %-*s  %6" PRIu32 "  %s\n", name, info->name, gpu, owner, who,
		       info->attachers, age);
	}
}

static int events_table(struct gpushare_session *session, const char *glob)
{
	struct events events = {.all = NULL};
	int status = gpushare_list_events(session, glob, events_visit, &events);

	if (!status)
		events_print(&events);
	free(events.all);
	if (status == GPUSHARE_E_CANCELLED)
		tool_error("no memory for the list");
	else if (status)
		tool_failed(status);
	return status ? TOOL_FAILED : tool_flush(TOOL_DONE);
}

int verb_events(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct verb_options options;
	const char *glob;
	int code = verb_parse(argc, argv, true, false, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage(
		    "one GLOB at a time; quote it, so that the shell leaves it alone");
	glob = argv[optind]; /* NULL where there is none */
	session = tool_open(options.directory);
	if (!session)
		return TOOL_FAILED;
	return options.json ? show_list_json(session, gpushare_list_events, glob)
			    : events_table(session, glob);
}
