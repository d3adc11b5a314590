/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROBE_H
#define GPUSHARE_REGISTRY_PROBE_H
/*
 * Does anybody still answer at our own socket? A connection that closes before its greeting makes
 * an nng 1.5.2 listener deaf for good (nanomsg/nng#1518), and nothing tells: so ask now and then.
 * On a busy machine a listener that is merely slow looks the same: each time that one was given up there is
 * twice as much patience with the next.
 */
#include <stdbool.h>
#include <stdint.h>

#define PROBE_EVERY_MS 500
#define PROBE_ANSWER_MS 100
#define PROBE_PATIENCE_MS 60000 /* at most */

struct probe {
	int heard;	  /* eventfd: a connection of our own was taken */
	int fd;		  /* that connection; -1: none */
	int64_t since_ns; /* it has not been answered; 0: it has */
	int64_t patience_ns;
};

/* False: no descriptor, see errno. */
bool probe_open(struct probe *probe);
void probe_close(struct probe *probe);
/* The server was given a connection of this process. */
void probe_hear(const struct probe *probe);
/* Connects to `path`, where it has not, and greets as `protocol`. False: nobody has taken that for longer
 * than there is patience; the next call connects anew. Takes PROBE_ANSWER_MS at most. */
bool probe_is_answered(struct probe *probe, const char *path, uint16_t protocol);

#endif
