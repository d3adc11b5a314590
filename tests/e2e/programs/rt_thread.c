// SPDX-License-Identifier: MIT
/* rt_app whose default stream is each thread's own: the header leads its calls to other symbols. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "rt_app.c"
