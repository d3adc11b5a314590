/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_MANAGER_H
#define GPUSHARE_TESTS_UNIT_MANAGER_H
/* A service manager, played: its socket, what it was told last, what it keeps. */
#include <stdbool.h>

#include "persist/notify.h"

#define MANAGER_KEPT_MAX 64

struct manager_kept {
	char name[64];
	int fd;
};

extern char manager_path[128], manager_told[NOTIFY_MESSAGE + 1];
extern struct manager_kept manager_kept[MANAGER_KEPT_MAX];
extern int manager_count;

/* With a shelf. */
int manager_set_up(void **state);
int manager_tear_down(void **state);
void manager_listen(const char *where);
void manager_close(void);
/* Do what the next message says. false: there is none. */
bool manager_hear(int timeout_ms);
void manager_hear_all(void);
/* Keep something else under that name. */
void manager_add(const char *name);
/*
 * Start a registry's process, with `store_size` (NULL: not said) and what is kept, from descriptor 3
 * on; it is over when `act` returns, whatever that says.
 */
int manager_start(const char *store_size, int (*act)(void));

#endif
