/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CONFIG_H
#define GPUSHARE_REGISTRY_CONFIG_H
/* registry.conf(5): "key = value" lines. Each key is one line here or in limit.h; the parser,
 * --check-config, the defaults, and tools/man/pages.py (manual, example) read these lists. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "state/limit.h"

#define CONFIG_FILE "/etc/gpushare/registry.conf"
#define CONFIG_LINE_MAX 1024
#define CONFIG_VALUE_MAX 1016 /* after "audit = ": a line that can be read again */
#define CONFIG_FAULTS_MAX 20  /* config_parse() stops after so many */
#define CONFIG_WHY_MAX 160

/* N(key, least, most, preset, text): numbers. W(key, check, preset, text): text. */
#define SETTINGS(N, W) \
	N(message_bytes, 8192, 65536, 65536, \
	  "largest size of a request, in bytes; if one has over 65536, the connection is closed") \
	N(silent_s, 1, 3600, 10, \
	  "seconds that a client has to send its first request, to finish a request that it has " \
	  "begun, and to read an answer") \
	N(idle_exit_s, 0, 31536000, 0, \
	  "exit after so many seconds without a connection, if no buffer is kept; 0: never") \
	W(audit, audit_fault, "off", \
	  "where to write a line for each share, attach, refusal and removal: off; journal; the " \
	  "absolute path of a file; or NAME.log, for a file in the registry's directory") \
	N(audit_rate, 1, 1000000, 1000, \
	  "largest number of audit lines per second, and in one burst, for each user; further " \
	  "lines are left out, and one line reports how many")

struct settings {
	struct limits limits;
#define N(key, ...) uint64_t key;
#define W(key, ...) char key[PATH_MAX];
	SETTINGS(N, W)
#undef N
#undef W
};

void config_init(struct settings *settings);
/* Decimal digits, and K, M, G, T, Ki, Mi, Gi or Ti. */
bool config_number(const char *text, uint64_t *out_number);
/* Returns NULL if the value was set. Otherwise returns what is wrong with it, perhaps in `why`. */
const char *config_set(struct settings *settings, const char *key, const char *value,
		       char why[CONFIG_WHY_MAX]);
/* Reads settings from the file called `name` into *settings. Writes a line "name:line:column:
 * cause" to `say` for each fault. Returns the number of faults; *settings is valid in any case. */
unsigned int config_parse(const char *name, FILE *from, struct settings *settings, FILE *say);
/* NULL: CONFIG_FILE, which may be missing. false: the faults were written to `say`. */
bool config_read(const char *path, struct settings *settings, FILE *say);
/* Prints every key in the file's format. */
void config_print(const struct settings *settings, FILE *to);

#endif
