/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HASH_H
#define GPUSHARE_REGISTRY_HASH_H
/* uthash that does not end the process when memory is short: an element that could not be added
 * has hh.tbl NULL afterwards. Its buckets are nobody's to choose. */
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, out) ((out) = hash_of((key), (length)))
#include <uthash.h>
#include <utlist.h>

/* Another one in each process. */
unsigned int hash_of(const void *bytes, size_t length);
/* The same by that key. */
uint64_t hash_keyed(const uint64_t by[2], const void *bytes, size_t length);

#endif
