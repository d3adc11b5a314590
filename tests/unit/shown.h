/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SHOWN_H
#define GPUSHARE_TESTS_SHOWN_H
/*
 * A folder that looks like /proc to unseen.c: processes of this test under their own pids, in pid
 * namespaces that are files, with numbers there that are made up.
 */
#include <stdint.h>
#include <sys/types.h>

extern char shown_proc[64];

/* With this process in it, in namespace 0. */
void shown_set_up(void);
void shown_tear_down(void);
/* The number of a namespace: 0 is ours. */
uint64_t shown_namespace(int which);
/* `numbers` from ours to its own, with tabs between; NULL: they can't be read; `which` -1: nor can
 * its namespace. */
void shown_process(pid_t pid, const char *numbers, int which);
/* How proc is mounted. */
void shown_mounted(const char *options);

#endif
