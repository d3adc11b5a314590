/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_CONFIGURED_H
#define GPUSHARE_TESTS_UNIT_CONFIGURED_H
/* The daemon with a registry.conf of a test's own, beside raw.h. */
#include "raw.h"

/* raw_here, with these lines in its file; raw_tear_down() ends it. */
void configured_start(const char *lines);
/* And more options, up to a NULL. */
void configured_start_with(const char *lines, const char *const more[]);
/* The daemon is killed, and the next one has these lines. */
void configured_again(const char *lines);
/* How many of that the registry has counted; fails the test where it doesn't count them. */
uint64_t configured_drops(int fd, const char *why);
/* Waits until it has counted so many; fails where it counts more. */
void configured_await_drops(int fd, const char *why, uint64_t wanted);
uint64_t configured_limits(int fd, const char *key);
/* The whole of a file of the daemon's directory, the caller's to free. */
char *configured_file(const char *name);

/* Waits until a file of the directory has those words. */
void configured_await(const char *name, const char *words);

#endif
