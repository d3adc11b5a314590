/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_NOTIFY_H
#define GPUSHARE_REGISTRY_NOTIFY_H
/*
 * The protocol of the fd store: sd_notify(3) and sd_listen_fds(3). The service manager speaks it at
 * $NOTIFY_SOCKET, our keeper at keeper.sock. It is implemented here because libsystemd would be one
 * more dependency, for four messages.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

#define NOTIFY_STORE "FDSTORE=1"
#define NOTIFY_REMOVE "FDSTOREREMOVE=1"
/* Only for the keeper: send the descriptor after that number (0: the first one), as
 * FDSTORE=1. The answer has number 0 and no descriptor if there is no more. */
#define NOTIFY_NEXT "GPUSHARE_NEXT=1"
#define NOTIFY_MESSAGE 128
#define NOTIFY_VERB 32

/* A message: `verb`, and the name of that number's descriptor. Returns its length. */
size_t notify_write(char to[NOTIFY_MESSAGE], const char *verb, uint64_t number);
/* The verb and number of a message of notify_write(), which ends with NUL. false: it is none. */
bool notify_read(const char *message, char out_verb[NOTIFY_VERB], uint64_t *out_number);

/* Read the service manager's variables and remove them from the environment, once, before there
 * are threads. `mine` false: the variables are meant for the program that started us. */
void notify_init(bool mine);
/* A connection to the service manager; -1: errno says why there is none. */
int notify_connect(void);
/* Send a message that must arrive. Waits a second at most. */
void notify_say(const char *word);
/* How many descriptors the service manager keeps for us; 0: it keeps none. */
uint64_t notify_store_size(void);
/* Take the next of our descriptors that the service manager kept; the caller owns it. -1: there
 * is no more. A descriptor whose name is not one of ours stays open. */
int notify_take(uint64_t *out_number);

#endif
