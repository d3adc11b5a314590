/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_EXPORTED_H
#define GPUSHARE_TESTS_UNIT_EXPORTED_H
/* For parts that stage.h plays. */
#include <stddef.h>

struct driver;

/* Memory of this process's own, as the descriptor that it exports. */
int exported_memory(const struct driver *driver, size_t size);

#endif
