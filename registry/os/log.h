/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LOG_H
#define GPUSHARE_REGISTRY_LOG_H
#include <stdbool.h>

/* Call before other threads start. Until then only log_error() writes. */
void log_enable(bool on);
/* One line on stderr. Never pass a handle. */
#define log_line(...) log_write(false, __VA_ARGS__)
#define log_error(...) log_write(true, __VA_ARGS__)
void log_write(bool always, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
