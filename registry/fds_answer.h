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

/* Take the message that waits at `socket`, and answer it. Never blocks: what is taken in is memory of
 * this kernel or of the GPU's driver, and what is refused another thread closes. */
enum fds_outcome fds_answer(struct registry *registry, struct guest *guest, int socket);
/* Close what this user sent, or a connection of its with what may be in its queue: in a thread of that user's,
 * as another process may decide how long it takes. */
void fds_refuse(struct registry *registry, uint32_t uid, const int *fds, size_t count);

#endif
