/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RECALL_H
#define GPUSHARE_REGISTRY_RECALL_H
/*
 * A keeper does not know whose memory it keeps, nor how long. Where no registry comes to look after it
 * for a while, it starts one, as a client would: what nobody has a right to any more goes then.
 */
#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

#define RECALL_ALONE_MS 10000 /* a client, or a service manager, mostly was quicker */
#define RECALL_AGAIN_MS 60000

struct recall {
	char directory[GPUSHARE_PATH_MAX];
	int64_t due_ns; /* INT64_MAX: one is there */
	int64_t last_ns;
	bool off; /* by $GPUSHARE_AUTOSTART */
};

void recall_init(struct recall *recall, const char *directory);
/* Now and then, with whether a registry is connected. */
void recall_tick(struct recall *recall, bool connected);

#endif
