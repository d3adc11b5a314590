/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "preload/shim_when.h"
#include "tool.h"

#define TIMEOUT_MAX_MS 3600000

static bool is_timeout(const char *text)
{
	uint64_t ms;

	return tool_parse_size(text, &ms) && strspn(text, "0123456789") == strlen(text) && ms &&
	       ms <= TIMEOUT_MAX_MS;
}

static bool is_size(const char *text)
{
	uint64_t size;

	return tool_parse_size(text, &size) && !strchr(text, 'B');
}

static bool is_switch(const char *text)
{
	return !strcmp(text, "0") || !strcmp(text, "1");
}

static bool is_ordering(const char *text)
{
	return !strcmp(text, "host-functions");
}

static bool is_publish(const char *text)
{
	char why[512];

	return when_parse(text, why, sizeof(why)) != 0;
}

/* X(variable, function that checks the value, description of valid values) */
#define SETTINGS(X) \
	X("GPUSHARE_TIMEOUT_MS", is_timeout, "milliseconds, from 1 to 3600000") \
	X("GPUSHARE_DEFERRED_FREE", is_size, "bytes, such as 512Mi, or 0") \
	X("GPUSHARE_AUTOSTART", is_switch, "0 or 1") \
	X("GPUSHARE_ORDERING", is_ordering, "only the value 'host-functions'") \
	X("GPUSHARE_PUBLISH", is_publish, "one or more of sync, free, exit, separated by commas")

static const struct {
	const char *variable;
	bool (*is_good)(const char *text);
	const char *wanted;
} settings[] = {
#define X(variable, is_good, wanted) {variable, is_good, wanted},
    SETTINGS(X)
#undef X
};

void tool_check_settings(tool_bad_setting *bad)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		const char *value = getenv(settings[i].variable);

		if (value && *value && !settings[i].is_good(value))
			bad(settings[i].variable, value, settings[i].wanted);
	}
}
