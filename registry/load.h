/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LOAD_H
#define GPUSHARE_REGISTRY_LOAD_H
/* The records of before, read back: sessions as disconnected, names, attachments. Nobody is looked for, and what is of
 * no use any more is dropped. */
#include "options.h"
#include "registry.h"

/* false: what is there is to be written down anew, into a new file. */
bool load_records(struct registry *registry);
/* The file that --config named to whoever wrote them. false: none did, or there are no records. */
bool load_config(const char *directory, char out_config[OPTIONS_CONFIG_MAX]);

#endif
