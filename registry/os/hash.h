/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HASH_H
#define GPUSHARE_REGISTRY_HASH_H
/* uthash that does not end the process when memory is short: an element that could not be added
 * has hh.tbl NULL afterwards. Its buckets are nobody's to choose. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, out) ((out) = hash_of((key), (length)))
#include <uthash.h>
#include <utlist.h>

/* Another one in each process. */
unsigned int hash_of(const void *bytes, size_t length);
/*
 * What may hold a million things is so many tables, of which each grows by itself: one of a million doubles in
 * 60 ms, and all wait for that. Which of them a hash is in, by bits that the tables don't look at.
 */
#define HASH_PARTS 128
#define HASH_PART(hash) ((hash) / (UINT_MAX / HASH_PARTS + 1))
/* The same by that key. */
uint64_t hash_keyed(const uint64_t by[2], const void *bytes, size_t length);

#endif
