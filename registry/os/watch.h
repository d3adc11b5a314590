/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_WATCH_H
#define GPUSHARE_REGISTRY_WATCH_H
/*
 * The deaths of peers. A connection alone does not tell: a child that a peer forked keeps it open
 * after the peer was killed.
 */
#include <stdbool.h>
#include <stdint.h>

/* An fd that turns readable when a watched process ends; -1 and errno. */
int watch_open(void);
/* The highest descriptor that may be one's death: those above are left to connections, which tell of most
 * deaths by themselves. */
void watch_limit(int fd);
/* Returns what watch_remove() wants; -1 where the process can't be watched (not visible here). */
int watch_add(int watches, int32_t pid, uint32_t id);
void watch_remove(int watch);
/* Whether the process that watch_add() was asked to watch has ended; false where it can't be told. */
bool watch_ended(int watch);
/* The id of one more process that ended; each comes once. */
bool watch_next(int watches, uint32_t *out_id);

#endif
