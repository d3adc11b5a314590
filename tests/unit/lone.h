/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_LONE_H
#define GPUSHARE_TESTS_UNIT_LONE_H
/* A client that nobody has connected, with little patience and a directory of its own. */
#include "client/client_internal.h"

#define SHORTLY_MS 30

extern struct client lone_client;
extern char lone_folder[64]; /* its directory */

int lone_set_up(void **state);
int lone_tear_down(void **state);

/* Its latest failure is told in a sentence that holds these. */
void lone_why_has(const char *words);

#endif
