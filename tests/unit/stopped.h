/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_STOPPED_H
#define GPUSHARE_TESTS_UNIT_STOPPED_H
#include <stdbool.h>
#include <sys/types.h>

/* Send SIGSTOP to `pid` and wait until none of its threads runs. kill() returns before the signal
 * reaches all of them. false: the process can't be stopped, or still runs after 5 seconds. */
bool stopped(pid_t pid);

#endif
