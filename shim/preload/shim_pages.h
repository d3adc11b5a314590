/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_PAGES_H
#define GPUSHARE_SHIM_PAGES_H
/*
 * The order pages (order.h) of this process's named buffers, where GPUSHARE_PUBLISH wants them: the
 * program is who publishes, by the CPU. Asks the registry when a buffer gets its name, and again where
 * it was restarted or gave no page; no publication waits for anybody. Nothing here touches the GPU but
 * pages_publish_freed(). errno stays; a forked child does nothing.
 */
#include <stdint.h>

#include "cuda/driver.h"
#include "shim_live.h"

/* A buffer of this process has that name from now on; and no more. */
void pages_add(const char *name, uint64_t generation);
void pages_end(uint64_t generation);

/* Each of them once. */
void pages_publish(void);

/* For `free`: of a buffer that is about to be freed, behind what cuMemFree waits for, where it would
 * go well; and of one of which the program has unmapped and released everything. */
void pages_publish_freed(const struct driver *driver, const struct live *entry);
void pages_publish_ended(uint64_t generation);

#endif
