/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "observe/audit.h"
#include "text.h"
#include "quota.h"

#define CLOSE_ENOUGH 3 /* edits between a slip and what was meant */

static const struct setting settings_all[] = {
#define X(name, all, user, what, helps) \
	{#name, 1, SETTING_MOST, NULL, offsetof(struct settings, limits.of_all[LIMIT_##name])}, \
	    {"user_" #name, 1, SETTING_MOST, NULL, \
	     offsetof(struct settings, limits.of_user[LIMIT_##name])},
    LIMITS(X)
#undef X
#define N(name, least, most, preset, text) \
	{#name, least, most, NULL, offsetof(struct settings, name)},
#define W(name, check, preset, text) {#name, 0, 0, check, offsetof(struct settings, name)},
	SETTINGS(N, W)
#undef N
#undef W
};

void settings_init(struct settings *settings)
{
	*settings = (struct settings){
#define N(name, least, most, preset, text) .name = preset,
#define W(name, check, preset, text) .name = preset,
	    SETTINGS(N, W)
#undef N
#undef W
	};
	limits_init(&settings->limits);
}

const struct setting *settings_at(unsigned int index)
{
	return index < sizeof(settings_all) / sizeof(*settings_all) ? &settings_all[index] : NULL;
}

const struct setting *settings_find(const char *key)
{
	const struct setting *which;

	for (unsigned int i = 0; (which = settings_at(i)); i++) {
		if (!strcmp(which->key, key))
			return which;
	}
	return NULL;
}

const char *settings_closest(const char *key)
{
	const struct setting *which;
	const char *found = NULL;
	unsigned int most = CLOSE_ENOUGH;

	for (unsigned int i = 0; (which = settings_at(i)); i++) {
		unsigned int away = edit_distance(key, which->key, most);

		if (away > most || away >= strlen(key))
			continue;
		most = away ? away - 1 : 0;
		found = which->key;
	}
	return found;
}

/* What stands behind a number, as the rules' sizes have it. 0: nothing that is known. */
static uint64_t unit_of(const char *text)
{
	static const struct {
		const char *name;
		uint64_t times;
	} units[] = {
	    {"", 1},
	    {"K", 1000},
	    {"M", 1000000},
	    {"G", 1000000000},
	    {"T", 1000000000000},
	    {"Ki", UINT64_C(1) << 10},
	    {"Mi", UINT64_C(1) << 20},
	    {"Gi", UINT64_C(1) << 30},
	    {"Ti", UINT64_C(1) << 40},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (!strcmp(text, units[i].name))
			return units[i].times;
	}
	return 0;
}

static bool read_number(const char *text, uint64_t *out_number)
{
	uint64_t number = 0, unit;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		number = number * 10 + (uint64_t)(*text - '0');
		if (number > SETTING_MOST)
			return false;
	}
	unit = unit_of(text);
	return unit && !__builtin_mul_overflow(number, unit, out_number);
}

const char *settings_put(struct settings *settings, const struct setting *which, const char *value,
			 char *why, size_t size)
{
	void *to = (char *)settings + which->offset;
	uint64_t number = 0;

	if (which->fault) {
		const char *fault = which->fault(value);

		if (!fault)
			strcpy(to, value); /* no longer than a line of the file, which fits */
		return fault;
	}
	if (!read_number(value, &number) || number < which->least || number > which->most) {
		snprintf(why, size, "wants a number from %" PRIu64 " to %" PRIu64 ", as in %s",
			 which->least, which->most, "1000, 64Ki or 2M");
		return why;
	}
	memcpy(to, &number, sizeof(number));
	return NULL;
}

void settings_print(const struct settings *settings, const struct setting *which, FILE *to)
{
	const char *from = (const char *)settings + which->offset;
	uint64_t number;

	if (which->fault) {
		fprintf(to, "%s = %s\n", which->key, from);
		return;
	}
	memcpy(&number, from, sizeof(number));
	fprintf(to, "%s = %" PRIu64 "\n", which->key, number);
}
