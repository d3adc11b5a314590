/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SELF_H
#define GPUSHARE_SHIM_API_SELF_H
/* Whether this process is still the one that it was, or a forked child of that: without a system
 * call, which would cost as much as the rest of what is asked often. */
#include <stdbool.h>

/* From here on self_is() knows this process. false: it will make a system call each time. */
bool self_claim(void);
bool self_is(int pid);
/* From here on dlclose() leaves our code loaded, be it in a plug-in: the driver may call it later. */
bool self_stay_loaded(void);

#endif
