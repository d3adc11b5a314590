/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDSTORE_H
#define GPUSHARE_REGISTRY_FDSTORE_H
/*
 * Descriptors that outlive this process: in the service manager's fd store ($NOTIFY_SOCKET, sd_notify
 * protocol FDSTORE=1/FDNAME=/FDSTOREREMOVE=1, back through LISTEN_FDS/LISTEN_FDNAMES), else in a
 * keeper process of ours that speaks the same. One thread uses it at a time (the registry's lock).
 * Nothing here blocks, but for fdstore_open(), fdstore_tie() and fdstore_close(), which give a keeper
 * and a service manager a second.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fdstore;

/* And take over what a predecessor left. NULL: out of memory. */
struct fdstore *fdstore_open(const char *directory);
/* What was left under that generation: the caller's fd; -1: nothing. It stays in the store too. */
int fdstore_take(struct fdstore *store, uint64_t generation);
/* The generation behind that one, in no order; 0 is before the first. false: there is none. */
bool fdstore_next(const struct fdstore *store, uint64_t *generation);
/* Whether that is the service manager's: the next registry that it starts gets them, and no other. */
bool fdstore_is_managers(const struct fdstore *store);
/* What nobody took goes, in the store too. */
void fdstore_settle(struct fdstore *store);
/*
 * `fd` stays the caller's, and open until fdstore_drop(): it is put again when the keeper was killed.
 * So is one from fdstore_take(). false: logged; it will not survive.
 */
bool fdstore_put(struct fdstore *store, uint64_t generation, int fd);
/* The other side hears of it by fdstore_flush(), when no record has it any longer: a successor is to find both
 * until then. */
void fdstore_drop(struct fdstore *store, uint64_t generation);
void fdstore_flush(struct fdstore *store);
/*
 * The last before fdstore_close(): should no registry come, the keeper drops these when the process of that
 * pidfd ends. false: they stay until one comes, as they do with a service manager. Waits a second at most.
 */
bool fdstore_tie(struct fdstore *store, int process, const uint64_t *generations, size_t count);
/* Every half a second: a keeper that was killed has a successor, what it was too busy for is sent.
 * When to be called at the latest; INT64_MAX: as ever. */
int64_t fdstore_tick(struct fdstore *store);
/* keep: for a successor; else all goes, the keeper ends. */
void fdstore_close(struct fdstore *store, bool keep);

#endif
