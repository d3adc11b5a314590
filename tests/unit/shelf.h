/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_SHELF_H
#define GPUSHARE_TESTS_UNIT_SHELF_H
/* The keeper of a daemon, and memory that says whose it is. */
#include <stdint.h>
#include <sys/types.h>

extern char shelf_directory[64]; /* of the daemon */

/* Says why, and skips, where an emulator starts no keeper. */
void shelf_needs_keeper(void);

/* Memory that says whose it is. */
int shelf_make(uint64_t generation);
void shelf_assert_is(int fd, uint64_t generation);
pid_t shelf_keeper(void); /* 0: none */
/* Whether that process ends in time; ms. */
void shelf_await_end(pid_t pid, int within_ms);
/* Until it keeps so many of these. */
void shelf_await_kept(pid_t keeper, int wanted);

#endif
