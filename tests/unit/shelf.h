/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_SHELF_H
#define GPUSHARE_TESTS_UNIT_SHELF_H
/* Stores of descriptors, registries that are killed, and the keeper that stays. */
#include <sys/types.h>

#include "persist/fdstore.h"

extern char shelf_directory[64]; /* of this test */

/* cmocka's main() of a program whose keepers are this program again. */
#define shelf_main(argc, argv, tests) \
	(shelf_is_keeper(argc, argv) ? shelf_keep(argv) : cmocka_run_group_tests(tests, NULL, NULL))
int shelf_is_keeper(int argc, char **argv);
int shelf_keep(char **argv);
/* Says why, and skips, where an emulator starts no keeper. */
void shelf_needs_keeper(void);

int shelf_set_up(void **state);
/* Fails when a descriptor was left open; ends the keeper. */
int shelf_tear_down(void **state);
char *shelf_path(const char *name);

/* Memory that says whose it is. */
int shelf_make(uint64_t generation);
void shelf_assert_is(int fd, uint64_t generation);
/* Put `count` from `first` on; each must be taken. The descriptors stay open, in a child. */
void shelf_put(struct fdstore *store, uint64_t first, int count);
/* Take them, look into them and close them; or there must be none. */
void shelf_take(struct fdstore *store, uint64_t first, int count);
void shelf_take_none(struct fdstore *store, uint64_t first, int count);

/* To the keeper's socket; -1: nobody listens there. */
int shelf_dial(void);
pid_t shelf_keeper(void); /* 0: none */
/* Whether that process ends in time; ms. */
void shelf_await_end(pid_t pid, int within_ms);
/* How many memory files it has: what it keeps. */
int shelf_kept(pid_t keeper);
void shelf_await_kept(pid_t keeper, int wanted);

#endif
