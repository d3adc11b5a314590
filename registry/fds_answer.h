/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDS_ANSWER_H
#define GPUSHARE_REGISTRY_FDS_ANSWER_H
/* One message of fds.sock: what it asks of the vault, and the answer. */
#include "registry.h"

/* Take the message that waits at `socket`, and answer it. false: the connection is to be closed. May
 * block on a descriptor that came, never on the socket. */
bool fds_answer(struct registry *registry, struct guest *guest, int socket);

#endif
