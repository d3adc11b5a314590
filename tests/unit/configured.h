/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_CONFIGURED_H
#define GPUSHARE_TESTS_UNIT_CONFIGURED_H
/* The daemon of raw.h with a registry.conf that the test writes. */
#include "raw.h"

/* Start raw_here with these lines in its registry.conf; raw_tear_down() ends it. */
void configured_start(const char *lines);
/* The same with further command line options; `more` ends with NULL. */
void configured_start_with(const char *lines, const char *const more[]);
/* The registry's count of connections dropped for the reason `why`. If it has no such count, fail
 * the test. */
uint64_t configured_drops(int fd, const char *why);
/* Wait until that count is `wanted`. If it gets higher, or not there in time, fail the test. */
void configured_await_drops(int fd, const char *why, uint64_t wanted);
/* How often requests met the limit `key`, by the registry's count. */
uint64_t configured_limits(int fd, const char *key);
/* Wait until a file in the daemon's directory exists and contains `words`. */
void configured_await(const char *name, const char *words);

#endif
