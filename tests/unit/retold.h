/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RETOLD_H
#define GPUSHARE_TESTS_UNIT_RETOLD_H
/* Parts of a stage that play the shim and its registry at once: scripted.h in this process. */
#include "preloaded.h"
#include "scripted.h"

#define RETOLD_TIMEOUT_MS 600

/* First in a part: preloaded() with a registry of the part's own, that gives generations from 101 on. */
const struct driver *retold_act(const char *names, const char *attaches);
/* Another registry, which was asked nothing yet. */
void retold_restart(void);

/* The program's, with its errno as it was. */
cu_deviceptr retold_alloc(size_t size);
void retold_free(cu_deviceptr pointer);

/* In the latest retelling; and how it was shared, which else fails the part. */
bool retold_is_told(const char *name, uint64_t generation);
const gpushare_Share *retold_share(const char *name);

#endif
