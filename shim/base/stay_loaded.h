/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_STAY_LOADED_H
#define GPUSHARE_SHIM_STAY_LOADED_H
/* Keeps the library or plug-in that holds our code loaded when dlclose() is called. */
#include <stdbool.h>

/* From then on dlclose() leaves it loaded, because our code may be called later. False:
 * dlerror() has the reason. */
bool stay_loaded(void);

#endif
