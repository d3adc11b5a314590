/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_METRICS_H
#define GPUSHARE_TOOLS_METRICS_H
/* The registry's numbers in Prometheus's text format. Source: prometheus.io, "Exposition
 * formats", text format 0.0.4. */
#include <stdio.h>

#include "gpushare.h"

/* NULL: there is no registry; prints gpushare_up 0 and nothing else. */
void metrics_print(FILE *to, const struct gpushare_registry_info *info);
/* Escape backslashes, quotes and newlines for a label's value. `out` needs twice the room of
 * `from`, the NUL included. */
void metrics_escape(const char *from, char *out);

#endif
