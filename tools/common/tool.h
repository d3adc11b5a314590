/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TOOL_H
#define GPUSHARE_TOOLS_TOOL_H
/* Used by all verbs: messages, parsing and formatting of numbers, sessions. */
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpushare.h"

enum tool_exit {
	TOOL_DONE = 0,
	TOOL_FAILED = 1, /* the request failed */
	TOOL_USAGE = 2,	 /* the command line is wrong */
};

#define TOOL_TEXT_MAX 64 /* bytes of a formatted number or name, NUL included */

extern const char *tool_name; /* prefix of every message; main() sets it */
/* The verb whose --help a usage error suggests; NULL: the tool's own --help. main() sets it. */
extern const char *tool_verb;

/* Print "<tool>: <message>" on stderr. */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Like tool_error(), but append "; try '<tool> <verb> --help'". Returns TOOL_USAGE. */
int tool_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Print the line "label: text" on stdout, with aligned texts. Control characters become '?'. */
void tool_field(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like getopt_long(), but messages begin with the tool's name and the verb. If the result is '?',
 * the error has been printed, and which --help to try. */
int tool_getopt(int argc, char **argv, const char *letters, const struct option *options);
/* Call `bad` for each environment variable that the library ignores because its value is invalid.
 * `wanted`: describes valid values. */
typedef void tool_bad_setting(const char *variable, const char *value, const char *wanted);
void tool_check_settings(tool_bad_setting *bad);
/* A `bad` for tool_check_settings() that reports the variable on stderr. */
tool_bad_setting tool_say_setting;
/* Print why the last gpushare call returned `status`. Returns TOOL_FAILED. */
int tool_failed(int status);
/* Print the version on stdout. Returns TOOL_DONE, or TOOL_FAILED if printing fails. */
int tool_version(void);
/* Flush stdout and return `code`. On an error, returns TOOL_FAILED and reports it, unless the
 * reader has closed the pipe (EPIPE). */
int tool_flush(int code);

uint64_t tool_now_ms(void); /* CLOCK_MONOTONIC */
/* Parse a number of bytes with an optional K M G T (powers of 1000) or Ki Mi Gi Ti (powers of
 * 1024), and an optional "B" after it. */
bool tool_parse_size(const char *text, uint64_t *out_size);
/* Parse seconds, with or without a fraction, into milliseconds. The limit is UINT32_MAX
 * milliseconds. */
bool tool_parse_seconds(const char *text, unsigned int *out_ms);

void tool_format_size(uint64_t size, char out[TOOL_TEXT_MAX]);	 /* for example "1.5 MiB" */
void tool_format_age(uint64_t seconds, char out[TOOL_TEXT_MAX]); /* for example "3m12s" */
/* Copy text of another process, made safe for a terminal and JSON: bytes that aren't printable
 * ASCII become '?'. The copy is cut to `out_size`, NUL included. `out` may be `from`. */
void tool_printable(const char *from, char *out, size_t out_size);
void tool_format_uuid(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX]);

bool tool_is_pattern(const char *name); /* whether `name` contains '*', '?' or '[' */
/* Whether `name` is a valid buffer name. If not, reports why. Needs no registry. */
bool tool_check_name(const char *name);
/*
 * Open a session with the registry in `directory` (NULL: the default). If no registry runs, start
 * one if `start` is true, or if an earlier registry left its state file. On failure, reports why
 * and returns NULL.
 */
struct gpushare_session *tool_open(const char *directory, bool start);
void tool_close(struct gpushare_session **session); /* for __attribute__((cleanup)) */

#define _tool_session_ __attribute__((cleanup(tool_close)))

#endif
