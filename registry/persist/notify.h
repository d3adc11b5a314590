/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_NOTIFY_H
#define GPUSHARE_REGISTRY_NOTIFY_H
/*
 * The service manager, as sd_notify(3) and sd_listen_fds(3) describe it, spoken on a plain socket: a
 * library for four words would be one more thing to install. What it says is in this process's
 * environment, so this is the process's own too.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Read the environment and take out of it what is meant for one process alone. `mine` false: some
 * program started us without a thought, and its service manager is told nothing in its name. To be
 * called once, before there are threads.
 */
void notify_init(bool mine);
/* At once or not at all: OK, E_NO_REGISTRY (no service manager), E_TIMED_OUT (it is busy), E_... */
int notify_send(const char *message, size_t size, const int *fds, size_t count);
/* A word that has to arrive: waits a second at most. */
void notify_say(const char *word);
/* How many descriptors it keeps for us; 0: it keeps none. */
uint64_t notify_store_size(void);
/* One more descriptor of ours that it kept for us, from now on the caller's; -1: that was all. What
 * has a name that is none of ours stays where it is. */
int notify_take(uint64_t *out_generation);

#endif
