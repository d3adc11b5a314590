/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_HASH_H
#define GPUSHARE_REGISTRY_HASH_H
/* uthash that does not end the process when memory is short: an element that could not be added
 * has hh.tbl NULL afterwards. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#endif
