/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_BESIDE_H
#define GPUSHARE_TOOLS_BESIDE_H
/* What lies beside this program, or where it is installed. */
#include <limits.h>
#include <stdbool.h>

#define BESIDE_WHY_MAX (3 * PATH_MAX)

/* The preload library: $GPUSHARE_SHIM, beside, ../lib, ../lib/<multiarch>. `why`: why not. */
bool beside_shim(char out[PATH_MAX], char why[BESIDE_WHY_MAX]);
/* A program of ours: beside, else on $PATH. */
bool beside_program(const char *name, char out[PATH_MAX]);
/* Become gpushare-attach with these words, argv[0] left out, for that verb, which its messages name;
 * returns a tool_exit after saying why not. */
int beside_attach(const char *verb, int argc, char **argv);

#endif
