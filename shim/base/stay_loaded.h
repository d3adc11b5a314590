/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STAY_LOADED_H
#define GPUSHARE_SHIM_STAY_LOADED_H
/* Keeps the library or plug-in that holds our code loaded when dlclose() is called. */
#include <stdbool.h>

/* Call this before our code is registered to be called later. From then on dlclose() doesn't unload
 * that code. False: dlerror() has the reason. */
bool stay_loaded(void);

#endif
