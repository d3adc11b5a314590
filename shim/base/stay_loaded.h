/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STAY_LOADED_H
#define GPUSHARE_SHIM_STAY_LOADED_H
/* dlclose() of the library, or of the plug-in, that our code is in. */
#include <stdbool.h>

/* From here on it leaves that loaded: somebody may call our code later. False: dlerror() says why not. */
bool stay_loaded(void);

#endif
