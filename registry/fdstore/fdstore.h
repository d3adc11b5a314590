/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDSTORE_H
#define GPUSHARE_REGISTRY_FDSTORE_H
/*
 * Descriptors that outlive this process, at "the other side": the service manager's fd store or our
 * keeper (notify.h, keeper.h). One thread uses it at a time (the registry's lock). Only two
 * functions wait for the other side: fdstore_close() for a second, fdstore_open() for two seconds
 * for each answer of a keeper.
 */
#include "state/users.h"

struct fdstore;

/* Take over what a predecessor left. NULL: out of memory. */
struct fdstore *fdstore_open(const char *directory, struct users *users);
/* A reference to the descriptor that a predecessor left under that number, charged to nobody. NULL:
 * there is none. */
struct fdref *fdstore_take(const struct fdstore *store, uint64_t number);
/* Set *number to the next one, in no order; begin with 0. false: there is no more. */
bool fdstore_next(const struct fdstore *store, uint64_t *number);
/* Drop the descriptors that nobody took, at the other side too. */
void fdstore_settle(struct fdstore *store);
/* Store a descriptor under the number fdref->stored, which no other has now. It is sent again if
 * the keeper is killed. A descriptor that can't be stored is logged, and won't survive. */
void fdstore_put(struct fdstore *store, struct fdref *fdref);
/* Release a reference. After the last one, the other side drops the descriptor in fdstore_flush():
 * call that when no record refers to it, because until then a successor must find both. */
void fdstore_release(struct fdstore *store, struct fdref *fdref);
void fdstore_flush(struct fdstore *store);
/*
 * Replace a keeper that was killed, and send what the other side was too busy for. Returns when to
 * call this again at the latest. INT64_MAX: when *out_keeper (-1: none) becomes readable, which
 * means that the keeper has ended.
 */
int64_t fdstore_tick(struct fdstore *store, int *out_keeper);
/* Whether the other side has still to be told something. */
bool fdstore_owes(const struct fdstore *store);
/* `keep`: leave all descriptors for a successor. Otherwise drop all, and the keeper ends. */
void fdstore_close(struct fdstore *store, bool keep);

#endif
