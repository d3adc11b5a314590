/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_STOPPED_H
#define GPUSHARE_TESTS_UNIT_STOPPED_H
#include <stdbool.h>
#include <sys/types.h>

/* SIGSTOP takes a moment to get to each of its threads, which may do much with it: this waits until none
 * of them runs. False: it can't be stopped, or is not within seconds. */
bool stopped(pid_t pid);

#endif
