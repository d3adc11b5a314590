/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SETTINGS_H
#define GPUSHARE_TOOLS_SETTINGS_H
/* Environment variables that the library passes over in silence where they make no sense. */

/* `bad` for each that is set so; `wanted`: what it is to be. */
typedef void settings_bad(const char *variable, const char *value, const char *wanted, void *user);
void settings_check(settings_bad *bad, void *user);

#endif
