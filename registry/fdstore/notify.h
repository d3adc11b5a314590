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
/* Only for the keeper: asks for the descriptor after that number; 0: for the first one. The answer
 * is a FDSTORE=1 message. If there is no more, it has number 0 and no descriptor. */
#define NOTIFY_NEXT "GPUSHARE_NEXT=1"
#define NOTIFY_MESSAGE 128
#define NOTIFY_VERB 32

/* Write a message: `verb`, and the name of the descriptor with that number. Returns its length. */
size_t notify_write(char to[NOTIFY_MESSAGE], const char *verb, uint64_t number);
/* Read the verb and number from a message of notify_write(). `message` ends with NUL. false: it
 * isn't such a message. */
bool notify_read(const char *message, char out_verb[NOTIFY_VERB], uint64_t *out_number);

/* Read the service manager's variables and remove them from the environment, once, before there
 * are threads. `mine` false: the variables are meant for the program that started us. */
void notify_init(bool mine);
/* A connection to the service manager; -1: errno says why there is none. */
int notify_connect(void);
/* Send a word to the service manager, if there is one. Waits a second at most. */
void notify_say(const char *word);
/* How many descriptors the service manager can keep for us; 0: none, or there is no manager. */
uint64_t notify_store_size(void);
/* Take the next descriptor that the service manager kept for us; the caller owns it. -1: there is
 * no more. Descriptors with other names than ours are skipped and stay open. */
int notify_take(uint64_t *out_number);

#endif
