/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_BESIDE_H
#define GPUSHARE_TOOLS_BESIDE_H
/* Find the preload library, or another program, beside this program or where it is installed. */
#include <limits.h>
#include <stdbool.h>

#define BESIDE_WHY_MAX (3 * PATH_MAX)

/* Find the preload library: $GPUSHARE_SHIM, else beside this program, ../lib, ../lib/<multiarch>.
 * On failure, returns false and writes the reason to `why`. */
bool beside_shim(char out[PATH_MAX], char why[BESIDE_WHY_MAX]);
/* Find a program: beside this one, else on $PATH. */
bool beside_program(const char *name, char out[PATH_MAX]);

#endif
