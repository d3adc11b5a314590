// SPDX-License-Identifier: MIT
/* rt_app with per-thread default streams: the macro makes the header map calls to other symbols. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "rt_app.c"
