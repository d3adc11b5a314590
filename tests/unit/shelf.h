/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_SHELF_H
#define GPUSHARE_TESTS_UNIT_SHELF_H
/* The keeper of a daemon, and memory that holds the generation of its buffer. */
#include <stdint.h>
#include <sys/types.h>

extern char shelf_directory[64]; /* the daemon's directory */

/* Skip the test, and say why, under an emulator: it can't start a keeper. */
void shelf_needs_keeper(void);

/* Make a memfd that holds `generation`; check that a descriptor is of such a memfd. */
int shelf_make(uint64_t generation);
void shelf_assert_is(int fd, uint64_t generation);
pid_t shelf_keeper(void); /* 0: none */
/* Wait until the process ends. If it does not within `within_ms`, fail the test. */
void shelf_await_end(pid_t pid, int within_ms);
/* Wait until the keeper has `wanted` descriptors of shelf_make(). */
void shelf_await_kept(pid_t keeper, int wanted);

#endif
