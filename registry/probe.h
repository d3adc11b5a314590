/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PROBE_H
#define GPUSHARE_REGISTRY_PROBE_H
/*
 * Does anybody still answer at our own socket? A connection that closes before its greeting makes
 * an nng 1.5.2 listener deaf for good (nanomsg/nng#1518), and nothing tells: so ask now and then.
 * A listener that is merely slow looks the same. Looks are counted, not time: a daemon that does not run
 * does not look. A look of a daemon that serves somebody counts little. Each time that a listener was
 * given up there is twice as much patience with the next.
 */
#include <stdbool.h>
#include <stdint.h>

#define PROBE_EVERY_MS 500
#define PROBE_ANSWER_MS 100
#define PROBE_SELDOM_MS 2000	 /* of an idle daemon: nng_calls.c does not reach a shared libnng */
#define PROBE_SELDOMEST_MS 32000 /* where it does, a listener does not go deaf by that */
#define PROBE_IDLE_LOOK 10	 /* what a look without an answer counts; of a busy daemon: 1 */
#define PROBE_PATIENCE (2 * PROBE_IDLE_LOOK) /* of them at first */
#define PROBE_PATIENCE_MOST (600 * PROBE_IDLE_LOOK)

struct probe {
	int heard; /* eventfd: a connection of our own was taken */
	int fd;	   /* that connection; -1: none */
	bool busy; /* the daemon has served somebody since the last look */
	unsigned int missed, patience;
};

/* The longest time between two looks that an idle daemon may take. */
int64_t probe_most_ms(void);
/* False: no descriptor, see errno. */
bool probe_open(struct probe *probe);
void probe_close(struct probe *probe);
/* The server was given a connection of this process. */
void probe_hear(const struct probe *probe);
/* Connects to `path`, where it has not, and greets as `protocol`. False: nobody has taken that for as many
 * looks as there is patience; the next call connects anew. Takes PROBE_ANSWER_MS at most. */
bool probe_is_answered(struct probe *probe, const char *path, uint16_t protocol);

#endif
