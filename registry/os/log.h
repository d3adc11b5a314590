/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LOG_H
#define GPUSHARE_REGISTRY_LOG_H
#include <stdbool.h>

/* Call this before other threads start. While logging isn't enabled, only log_error() writes. */
void log_enable(bool on);
/* Write one line to stderr. Never pass a handle, which gives access to a buffer. */
#define log_line(...) log_write(false, __VA_ARGS__)
#define log_error(...) log_write(true, __VA_ARGS__)
void log_write(bool always, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
