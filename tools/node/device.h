/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DEVICE_H
#define GPUSHARE_TOOLS_DEVICE_H
/* Copies from buffer to buffer by the GPU, which are done when the call returns. */
#include <stdbool.h>

#include "gpushare.h"

/* Copy all of `from` to `to`, which is not smaller. False: CUDA refuses that. */
bool device_copy(struct gpushare_buffer *to, struct gpushare_buffer *from);

#endif
