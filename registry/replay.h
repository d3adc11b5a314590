/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REPLAY_H
#define GPUSHARE_REGISTRY_REPLAY_H
/* The records of before, read back: leases as ghosts, names, attachments. Nobody is looked for, and what is of
 * no use any more is dropped. */
#include "options.h"
#include "registry.h"

/* false: what is there is to be written down anew, into a new file. */
bool replay(struct registry *registry);
/* The file that --config named to whoever wrote them. false: none did, or there are no records. */
bool replay_config(const char *directory, char out_config[OPTIONS_CONFIG_MAX]);

#endif
