/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDSTORE_H
#define GPUSHARE_REGISTRY_FDSTORE_H
/*
 * Descriptors that outlive this process, in the service manager's fd store or in our keeper (notify.h,
 * keeper.h). One thread uses it at a time (the registry's lock). Only fdstore_open() and fdstore_close() wait
 * for the other side, a second at most.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fdstore;

/* Take over what a predecessor left. NULL: out of memory. */
struct fdstore *fdstore_open(const char *directory);
/* The descriptor that was left under that generation, from now on the caller's; -1: none. It stays in the
 * store too. */
int fdstore_take(struct fdstore *store, uint64_t generation);
/* The generation after that one, in no order; 0 is before the first. false: that was the last. */
bool fdstore_next(const struct fdstore *store, uint64_t *generation);
/* Drop what nobody took, in the store too. */
void fdstore_settle(struct fdstore *store);
/*
 * `fd` stays the caller's, and open until fdstore_drop(): it is put again if the keeper was killed. So does one
 * from fdstore_take(). What can't be put is logged, and won't survive.
 */
void fdstore_put(struct fdstore *store, uint64_t generation, int fd);
/* The other side hears of it by fdstore_flush(), when no record refers to it: until then a successor has to
 * find both. */
void fdstore_drop(struct fdstore *store, uint64_t generation);
void fdstore_flush(struct fdstore *store);
/* Replace a keeper that was killed, send what the other side was too busy for. Returns when to call it at the
 * latest; INT64_MAX: when *out_keeper (-1: none) is readable, which a keeper's end makes it. */
int64_t fdstore_tick(struct fdstore *store, int *out_keeper);
/* keep: for a successor; else all goes, and the keeper ends. */
void fdstore_close(struct fdstore *store, bool keep);

#endif
