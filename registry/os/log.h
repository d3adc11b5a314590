/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LOG_H
#define GPUSHARE_REGISTRY_LOG_H
#include <stdbool.h>

/* Off until switched on; what goes wrong at the start is said by log_error() either way. */
void log_enable(bool on);
/* One line on stderr. Never give it a handle. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
