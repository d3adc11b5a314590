/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_NOTIFY_H
#define GPUSHARE_REGISTRY_NOTIFY_H
/*
 * The protocol of the fd store, as sd_notify(3) and sd_listen_fds(3) describe it, and the service manager,
 * which speaks it at $NOTIFY_SOCKET. Our keeper speaks the same. Written out here: libsystemd would be one
 * more thing to install for four words.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

#define NOTIFY_STORE "FDSTORE=1"
#define NOTIFY_REMOVE "FDSTOREREMOVE=1"
/* The keeper's alone: send the next descriptors that I don't have yet, as FDSTORE=1; no name: that was all. */
#define NOTIFY_TAKE "GPUSHARE_TAKE=1"

#define NOTIFY_NAME 32 /* bytes of "gpushare-<generation>" and what follows it */
#define NOTIFY_MESSAGE (128 + FDS_MAX * NOTIFY_NAME)

/* A message: `verb`, and the names of `count` generations. Returns its length. */
size_t notify_write(char to[NOTIFY_MESSAGE], const char *verb, const uint64_t *generations,
		    size_t count);
/* Whether the message, which ends with NUL, has that line. */
bool notify_has(const char *message, const char *verb);
/* How many names the message has; -1: none, or one that is not ours. */
int notify_read(const char *message, uint64_t out_generations[FDS_MAX]);

/*
 * Read the service manager's variables and remove them from the environment, once, before there are threads.
 * `mine` false: the variables are meant for the program that started us.
 */
void notify_init(bool mine);
/* Send at once or not at all: OK, E_NO_REGISTRY (no service manager), E_TIMED_OUT (it is busy), E_... */
int notify_send(const char *message, size_t size, const int *fds, size_t count);
/* Send a word that has to arrive. Waits a second at most. */
void notify_say(const char *word);
/* How many descriptors the service manager keeps for us; 0: it keeps none. */
uint64_t notify_store_size(void);
/* The next of our descriptors that the service manager kept, from now on the caller's; -1: there is no more.
 * One that has no name of ours stays open. */
int notify_take(uint64_t *out_generation);

#endif
