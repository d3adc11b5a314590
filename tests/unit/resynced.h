/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RETOLD_H
#define GPUSHARE_TESTS_UNIT_RETOLD_H
/* Parts of a stage that play the shim and its registry at once: scripted.h in this process. */
#include "preloaded.h"
#include "scripted.h"

#define RETOLD_TIMEOUT_MS 600

/* First in a part: preloaded() with a registry of the part's own, that gives generations from 101 on. */
const struct driver *resynced_act(const char *names, const char *attaches);
/* Another registry, which was asked nothing yet. */
void resynced_restart(void);

/* The program's, with its errno as it was. */
cu_deviceptr resynced_alloc(size_t size);
void resynced_free(cu_deviceptr pointer);

/* In the latest resyncing; and how it was shared, which else fails the part. */
bool resynced_is_told(const char *name, uint64_t generation);
const gpushare_Share *resynced_share(const char *name);

#endif
