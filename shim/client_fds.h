/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_FDS_H
#define GPUSHARE_SHIM_CLIENT_FDS_H
/*
 * File descriptors to and from the registry's vault. Each call connects anew and leaves nothing
 * open; it ends within client->timeout_ms, and client->why has the sentence behind a failure.
 */
#include "client.h"

/* Give duplicates of `count` descriptors to the registry, which keeps each until a Share of this
 * process names its ticket, or for ten seconds. E_LIMIT, E_INVALID (no memory: a socket or a directory, say),
 * E_NO_REGISTRY, E_TIMED_OUT, E_PROTOCOL, E_DENIED, E_FORKED, E_NOT_SUPPORTED (an old registry). */
int client_deposit(struct client *client, const int *fds, size_t count,
		   uint8_t (*out_tickets)[GPUSHARE_TICKET_SIZE]);
/* The descriptor that an AttachReply's ticket stands for, close-on-exec; the caller closes it.
 * Besides the above E_NOT_FOUND: the ticket is too old, used, or another process's. */
int client_withdraw(struct client *client, const uint8_t ticket[GPUSHARE_TICKET_SIZE], int *out_fd);

/* The descriptor of a page that the registry writes: of changes (FDS_CHANGES, client_changes.h), or
 * its index (FDS_INDEX, client_index.h); the caller closes it. */
int client_page(struct client *client, enum fds_verb verb, int *out_fd);

#endif
