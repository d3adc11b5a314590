/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_SET_H
#define GPUSHARE_TESTS_API_SET_H
/* api_app's verbs for gpushare_attach_many(). */
#include "gpushare.h"

#define SET_MAX 1000

static struct gpushare_buffer *set_buffers[SET_MAX];
static size_t set_count;

static int set_attach(const char *const *names, size_t count,
		      const struct gpushare_attach_options *options, struct gpushare_buffer **taken)
{
	static char untouched;
	size_t changed = 0;
	int status;

	for (size_t i = 0; i < count; i++)
		taken[i] = (void *)&untouched;
	status = gpushare_attach_many(session, names, count, options, taken);
	for (size_t i = 0; i < count; i++) {
		changed += (void *)taken[i] != &untouched;
		if (status)
			taken[i] = NULL;
	}
	if (changed != (status ? 0 : count))
		printf("%zu of %zu were set\n", changed, count);
	return status;
}

/* attachall=SLOTS[:WAIT_MS[:host]],NAME...: a letter of SLOTS for each name */
VERB(attachall, 2, 8)
{
	struct gpushare_attach_options options = {0};
	struct gpushare_buffer *made[SCRIPT_ARGUMENTS];
	char *slots = strsep(&argument[0], ":");
	char *wait = strsep(&argument[0], ":");
	size_t names = (size_t)count - 1;
	int status;

	options.wait_ms = wait ? (unsigned int)script_number(wait) : 0;
	options.host_only = argument[0] != NULL;
	status = set_attach((const char *const *)argument + 1, names, &options, made);
	say("attachall", slots, status);
	for (size_t i = 0; i < names && i < strlen(slots); i++)
		*buffer_of(&slots[i]) = made[i];
}

/* attachset=PREFIX,COUNT: the names of "many" */
VERB(attachset, 2, 2)
{
	static char names[SET_MAX][32];
	const char *all[SET_MAX];
	int status;

	set_count = script_number(argument[1]);
	for (size_t i = 0; i < set_count; i++) {
		snprintf(names[i], sizeof(names[i]), "%.16s%03zu", argument[0], i);
		all[i] = names[i];
	}
	status = set_attach(all, set_count, NULL, set_buffers);
	say("attachset", argument[0], status);
	for (size_t i = 0; !status && i < set_count; i++) {
		struct gpushare_info info;

		if (gpushare_buffer_info(set_buffers[i], &info) || strcmp(info.name, names[i]) != 0)
			printf("another buffer came for %s\n", names[i]);
	}
}

VERB(detachset, 0, 0)
{
	int status = GPUSHARE_OK;

	for (size_t i = 0; i < set_count && !status; i++) {
		status = gpushare_detach(set_buffers[i]);
		set_buffers[i] = NULL;
	}
	say("detachset", "", status);
}

static int set_add(const struct gpushare_info *info, void *user)
{
	*(unsigned int *)user += info->attachers;
	return 0;
}

/* attached=GLOB: print how often all of its buffers are attached, by any process */
VERB(attached, 1, 1)
{
	unsigned int attachers = 0;
	int status = gpushare_list(session, argument[0], set_add, &attachers);

	if (status)
		say("attached", argument[0], status);
	else
		printf("attached %s: %u\n", argument[0], attachers);
}

#endif
