/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REPLAY_H
#define GPUSHARE_REGISTRY_REPLAY_H
/* The journal, read back: leases as ghosts, names, attachments; nobody is looked for, nothing is
 * written. */
#include "registry.h"

void replay(struct registry *registry, int directory);

#endif
