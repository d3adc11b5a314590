/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HASH_H
#define GPUSHARE_REGISTRY_HASH_H
/* uthash with a keyed hash, so that no client can choose buckets. If memory is short, an element that could not be
 * added has hh.tbl NULL. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, out) ((out) = hash_of((key), (length)))
#include <uthash.h>
#include <utlist.h>

/* Differs in each process. */
unsigned int hash_of(const void *bytes, size_t length);

/*
 * A table of a million elements doubles in 60 ms, and everybody waits for that. So large tables are split into
 * parts, each of which grows alone. The part comes from bits of the hash that uthash doesn't use.
 */
#define HASH_PARTS 128
#define HASH_PART(hash) ((hash) / (UINT_MAX / HASH_PARTS + 1))

#endif
