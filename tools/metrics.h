/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_METRICS_H
#define GPUSHARE_TOOLS_METRICS_H
/* The registry's numbers as text that Prometheus reads.
 * Source: prometheus.io, "Exposition formats", text format 0.0.4. */
#include <stdio.h>

#include "gpushare.h"

/* NULL: there is no registry, and that is all that there is to tell. */
void metrics_print(FILE *to, const struct gpushare_registry_info *info);
/* A label's value, its backslashes, quotes and newlines escaped; `out` has room for twice `from`. */
void metrics_escape(const char *from, char *out);

#endif
