/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_REPLAY_H
#define GPUSHARE_REGISTRY_REPLAY_H
/* The journal, read back: leases as ghosts, names, attachments; nobody is looked for, nothing is
 * written. */
#include "options.h"
#include "registry.h"

void replay(struct registry *registry, int directory);
/* The file that --config named to whoever wrote the journal. false: none did, or there is no journal. */
bool replay_config(const char *directory, char out_config[OPTIONS_CONFIG_MAX]);

#endif
