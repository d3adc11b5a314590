/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDSTORE_H
#define GPUSHARE_REGISTRY_FDSTORE_H
/*
 * Descriptors that outlive this process, because "the other side" has copies: the service manager's
 * fd store, or our keeper (notify.h, keeper.h). All functions need the registry's lock held. Only
 * two of them wait for the other side: fdstore_close() for a second, fdstore_open() two seconds for
 * each answer of a keeper.
 */
#include "state/users.h"

struct fdstore;

/* Take over what a predecessor left. NULL: out of memory. */
struct fdstore *fdstore_open(const char *directory, struct users *users);
/* Take a reference to the descriptor that a predecessor left under that number. No user is charged
 * for it yet. NULL: there is none. */
struct fdref *fdstore_take(const struct fdstore *store, uint64_t number);
/* Set *number to the number of the next descriptor that a predecessor left, in no order; begin with
 * 0. false: there is no more. */
bool fdstore_next(const struct fdstore *store, uint64_t *number);
/* Drop the predecessor's descriptors that weren't taken, at the other side too. */
void fdstore_settle(struct fdstore *store);
/* Store a descriptor under the number fdref->stored, which no other descriptor has now. If the
 * keeper is killed, the next one gets the descriptor, too. If the store is full, this is logged,
 * and the descriptor is lost when this process ends. */
void fdstore_put(struct fdstore *store, struct fdref *fdref);
/* Release a reference. After the last one, fdstore_flush() tells the other side to drop the
 * descriptor. Call fdstore_flush() when no record refers to the descriptor any more: until then, a
 * successor must find both. */
void fdstore_release(struct fdstore *store, struct fdref *fdref);
void fdstore_flush(struct fdstore *store);
/* Replace a keeper that was killed, and send what the other side was too busy for. Returns when to
 * call this again at the latest; INT64_MAX: no such time. Also call this when *out_keeper (-1:
 * none) is readable, because the keeper has ended. */
int64_t fdstore_tick(struct fdstore *store, int *out_keeper);
/* Whether descriptors or drops are still to be sent to the other side. */
bool fdstore_owes(const struct fdstore *store);
/* `keep`: leave all descriptors to a successor. Otherwise drop all of them, and end the keeper. */
void fdstore_close(struct fdstore *store, bool keep);

#endif
