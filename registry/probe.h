/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROBE_H
#define GPUSHARE_REGISTRY_PROBE_H
/*
 * Does anybody still answer at our own socket? A connection that closes before its greeting makes
 * an nng 1.5.2 listener deaf for good (nanomsg/nng#1518), and nothing tells: so ask now and then.
 */
#include <stdbool.h>
#include <stdint.h>

#define PROBE_EVERY_MS 500
#define PROBE_ANSWER_MS 100

/* Connects to `path` and greets as `protocol`; false only when the eventfd `heard`, which the server writes when
 * it is given a connection of this process, stays silent for PROBE_ANSWER_MS. */
bool probe_is_answered(const char *path, uint16_t protocol, int heard);

#endif
