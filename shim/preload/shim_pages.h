/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_PAGES_H
#define GPUSHARE_SHIM_PAGES_H
/*
 * The stream-sync pages (order_page.h) of this process's named buffers, if GPUSHARE_PUBLISH is set:
 * this process publishes the buffers from the CPU, which tells other processes of new contents. The
 * registry is asked for a page when a buffer gets its name, and again if the registry was restarted
 * or gave no page. No publication waits for the registry or for another process. Only
 * pages_publish_freed() touches the GPU. errno stays. In a forked child these calls do nothing.
 */
#include <stdint.h>

#include "cuda/driver.h"
#include "shim_live.h"

/* pages_add(): a buffer of this process has got a name. pages_end(): it has lost the name. */
void pages_add(const char *name, uint64_t generation);
void pages_end(uint64_t generation);

/* Publish each of the buffers once. */
void pages_publish(void);

/* Only with GPUSHARE_PUBLISH=free. pages_publish_freed(): publish a buffer that is about to be
 * freed. It first waits for the GPU as cuMemFree does, and publishes nothing if that fails.
 * pages_publish_ended(): publish cuMemCreate memory whose handles and mappings have all ended. */
void pages_publish_freed(const struct driver *driver, const struct live *entry);
void pages_publish_ended(uint64_t generation);

#endif
