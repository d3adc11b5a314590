/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_FDS_H
#define GPUSHARE_SHIM_CLIENT_FDS_H
/*
 * The registry's other socket, which carries file descriptors. Each call connects anew and leaves nothing
 * open; client->why has the sentence behind a failure.
 */
#include "client.h"

/* The descriptor of a page that the registry writes: of changes (FDS_CHANGES, client_changes.h), or
 * its index (FDS_INDEX, client_index.h); the caller closes it. Within client->timeout_ms. */
int client_page(struct client *client, enum fds_verb verb, int *out_fd);

/* client_exchange(), with client->goes beside the question, and client->came beside its answer. */
int client_exchange_fds(struct client *client, const request *question, int64_t deadline_ms);

#endif
