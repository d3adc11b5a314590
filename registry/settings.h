/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SETTINGS_H
#define GPUSHARE_REGISTRY_SETTINGS_H
/* What an administrator may set: each key once, here and in limit.h, for the file, --check-config, the
 * defaults, the example and the manual (tools/man/pages.py reads both). */
#include <limits.h>
#include <stdio.h>

#include "state/limit.h"

#define SETTING_MOST \
	9007199254740992 /* of what has no end of its own: numbers that JSON has, too */

/* N(key, least, most, preset, what it is): numbers. W(key, check, preset, what it is): words. */
#define SETTINGS(N, W) \
	N(message_bytes, 8192, 65536, 65536, \
	  "how many bytes one request has at most; beyond 65536 the connection is closed") \
	N(silent_s, 1, 3600, 10, \
	  "seconds in which a connection has to say hello, to end a message that it has begun, " \
	  "and to " \
	  "read what it is sent") \
	N(idle_exit_s, 0, 31536000, 0, \
	  "leave after so many seconds without a connection, if nothing is kept; 0: never") \
	W(audit, audit_fault, "off", \
	  "where a line for each share, attach, refusal and removal goes: off; journal; a file " \
	  "by its " \
	  "absolute path; or a file's name alone, for one in the registry's directory") \
	N(audit_rate, 1, 1000000, 1000, \
	  "how many of these lines a second each user may cause, and how many at once; what is " \
	  "more is " \
	  "left out, and a line says how many")

struct settings {
	struct limits limits;
#define N(key, ...) uint64_t key;
#define W(key, ...) char key[PATH_MAX];
	SETTINGS(N, W)
#undef N
#undef W
};

/* One of them, by its place in the list; NULL past its end. */
struct setting {
	const char *key;
	uint64_t least, most;
	const char *(*fault)(const char *word); /* of words; NULL: it is a number */
	size_t offset;				/* in struct settings */
};

void settings_init(struct settings *settings);
const struct setting *settings_at(unsigned int index);
/* NULL: there is no such key. */
const struct setting *settings_find(const char *key);
/* What comes closest to that; NULL: nothing does. */
const char *settings_closest(const char *key);
/* NULL, and it is set; else what is wrong, in `why`. */
const char *settings_put(struct settings *settings, const struct setting *which, const char *value,
			 char *why, size_t size);
/* "key = value", as a file has it. */
void settings_print(const struct settings *settings, const struct setting *which, FILE *to);

#endif
