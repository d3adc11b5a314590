/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDS_ANSWER_H
#define GPUSHARE_REGISTRY_FDS_ANSWER_H
/* One message of fds.sock: what it asks of the vault, and the answer. */
#include "registry.h"

enum fds_outcome {
	FDS_CLOSE, /* the connection */
	FDS_GO_ON,
	FDS_LEAVE, /* another daemon takes over, and waits for this one to leave */
};

/* Take the message that waits at `socket`, and answer it. May block on a descriptor that came, never
 * on the socket. */
enum fds_outcome fds_answer(struct registry *registry, struct guest *guest, int socket);

#endif
