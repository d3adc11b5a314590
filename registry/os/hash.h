/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HASH_H
#define GPUSHARE_REGISTRY_HASH_H
/* uthash with a keyed hash, so that no client can choose its buckets. If HASH_ADD() fails for lack
 * of memory, the element's hh.tbl is NULL. */
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, out) ((out) = hash_of((key), (length)))
#include <uthash.h>
#include <utlist.h>

/* Every key is a number of at most 8 bytes. The secret, and so the hash, differs from process to
 * process. */
unsigned int hash_of(const void *number, size_t size);

#endif
