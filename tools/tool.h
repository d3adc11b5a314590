/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TOOL_H
#define GPUSHARE_TOOLS_TOOL_H
/* What the command line tools have in common: words on stderr, numbers in and out, sessions. */
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"

enum tool_exit {
	TOOL_DONE = 0,
	TOOL_FAILED = 1, /* the request failed */
	TOOL_USAGE = 2,	 /* it was not understood */
};

#define TOOL_TEXT_MAX 64 /* bytes of a formatted number or name, NUL included */

extern const char *tool_name; /* before every message; main() sets it */
extern const char *tool_verb; /* whose --help to try, NULL: the tool's own; main() sets it */

/* "<tool>: <message>" on stderr. */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with "try '<tool> <verb> --help'" behind it; returns TOOL_USAGE. */
int tool_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* getopt_long(), whose messages name tool and verb; what it has said ends in a '?', and where to look. */
int tool_getopt(int argc, char **argv, const char *letters, const struct option *options);
/* Take what --dir says; TOOL_DONE, or TOOL_USAGE: there is nothing. */
int tool_take_directory(const char *text, const char **out_directory);
/* Say which environment variables are passed over because they make no sense. */
void tool_check_settings(void);
/* Say why the last gpushare call answered `status`; returns TOOL_FAILED. */
int tool_failed(int status);
/* Print a help text or the version on stdout; returns TOOL_DONE, or TOOL_FAILED if that fails. */
int tool_print(const char *text);
int tool_version(void);
/* Flush stdout; a reader that has gone is a quiet TOOL_FAILED, any other error is said. */
int tool_flush(int code);

/* Bytes with an optional K M G T (powers of 1000) or Ki Mi Gi Ti (of 1024), "B" allowed behind. */
bool tool_parse_size(const char *text, uint64_t *out_size);
/* Seconds, with a fraction if need be, to milliseconds; up to 4294967 of them. */
bool tool_parse_seconds(const char *text, unsigned int *out_ms);

void tool_format_size(uint64_t size, char out[TOOL_TEXT_MAX]);	 /* "1.5 MiB" */
void tool_format_age(uint64_t seconds, char out[TOOL_TEXT_MAX]); /* "3m12s" */
/* What another process chose, made safe for a terminal and for JSON. */
void tool_printable(const char *from, char *out, size_t out_size);
void tool_format_uuid(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX]);

/* Whether `name` can be a buffer's. Else says why not: no registry is needed to know. */
bool tool_check_name(const char *name);
/* A session with the registry in `directory` (NULL: the default). `start`: start a registry where none
 * runs; else only where one was killed and left its names. Says why it failed and returns NULL. */
struct gpushare_session *tool_open(const char *directory, bool start);
void tool_close(struct gpushare_session **session); /* for cleanup */

#define _tool_session_ __attribute__((cleanup(tool_close)))

#endif
