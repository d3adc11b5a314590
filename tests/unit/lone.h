/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_LONE_H
#define GPUSHARE_TESTS_UNIT_LONE_H
/* An unconnected client with a short timeout and its own directory. */
#include "client/client_internal.h"

#define SHORTLY_MS 30

extern struct client lone_client;
extern char lone_folder[64]; /* the client's directory */

int lone_set_up(void **state);
int lone_tear_down(void **state);

/* Fail the test unless the sentence of the client's latest failure contains `words`. */
void lone_why_has(const char *words);

#endif
