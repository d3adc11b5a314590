/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SETTINGS_H
#define GPUSHARE_TOOLS_SETTINGS_H
/* Check environment variables: the library itself ignores invalid values silently. */

/* settings_check() calls `bad` for each variable with an invalid value. `wanted`: describes
 * valid values. */
typedef void settings_bad(const char *variable, const char *value, const char *wanted);
void settings_check(settings_bad *bad);

#endif
