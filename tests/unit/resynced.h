/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_RETOLD_H
#define GPUSHARE_TESTS_UNIT_RETOLD_H
/* For parts of a stage that run the shim and a scripted registry (scripted.h) in one process. */
#include "preloaded.h"
#include "scripted.h"

#define RETOLD_TIMEOUT_MS 600

/* Call it first in a part: start a registry that gives generations from 101 on, then call
 * preloaded(). */
const struct driver *resynced_act(const char *names, const char *attaches);
/* End the registry and start another one, whose records of requests are empty. */
void resynced_restart(void);

/* The program's allocation and free. If one fails or changes errno, fail the part. */
cu_deviceptr resynced_alloc(size_t size);
void resynced_free(cu_deviceptr pointer);

/* Did the latest resync report `name` as shared, with that generation? The Share request that
 * shared `name` again; if there is none, fail the part. */
bool resynced_is_told(const char *name, uint64_t generation);
const gpushare_Share *resynced_share(const char *name);

#endif
