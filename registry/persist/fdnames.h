/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDNAMES_H
#define GPUSHARE_REGISTRY_FDNAMES_H
/* What descriptors are called in a store: "gpushare-<generation>", several with ':' between them, and
 * the messages that hold such names. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

#define FDNAMES_STORE "FDSTORE=1"
#define FDNAMES_REMOVE "FDSTOREREMOVE=1"
/* A keeper's, beyond the service manager's: give what you have, some at a time; drop it all, end. */
#define FDNAMES_TAKE "GPUSHARE_TAKE=1"
#define FDNAMES_STOPPING "STOPPING=1"
/* A keeper's, with a pidfd: unless a registry takes them first, they go when that process ends. */
#define FDNAMES_OWNER "GPUSHARE_OWNER=1"

#define FDNAMES_ONE 32 /* bytes of one name, with what comes behind it */
#define FDNAMES_MESSAGE (128 + FDS_MAX * FDNAMES_ONE)

/* `verb`, and the names of `count` generations. Returns the length. */
size_t fdnames_write(char to[FDNAMES_MESSAGE], const char *verb, const uint64_t *generations,
		     size_t count);
/* Whether the message, which ends with NUL, has that line. */
bool fdnames_says(const char *message, const char *verb);
/* The names in the message: their count, -1 when it has none or one that is none of ours. */
int fdnames_read(const char *message, uint64_t out_generations[FDS_MAX]);
/* One name, which ends at ':', at the line's end or with NUL. */
bool fdnames_is_ours(const char *name, uint64_t *out_generation);

#endif
