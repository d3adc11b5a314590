/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CONFIG_H
#define GPUSHARE_REGISTRY_CONFIG_H
/* registry.conf: "key = value" a line; "#" and what follows is a comment. registry.conf(5). */
#include <stdbool.h>

#include "settings.h"

#define CONFIG_FILE "/etc/gpushare/registry.conf"
#define CONFIG_LINE_MAX 1024 /* and no value is longer */
#define CONFIG_SIZE_MAX 65536
#define CONFIG_FAULTS_MAX 20 /* what comes behind so many is not looked at */

/*
 * What `text` of the file called `name` says, over what *settings has; each fault is a line to `say`,
 * "name:line:column: cause". How many there were. The settings are whole either way.
 */
unsigned int config_parse(const char *name, const char *text, size_t size,
			  struct settings *settings, FILE *say);
/* The file itself; NULL: CONFIG_FILE, which need not be there. false: it was said why. */
bool config_read(const char *path, struct settings *settings, FILE *say);

#endif
