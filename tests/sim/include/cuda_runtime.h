/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SIM_CUDA_RUNTIME_H
#define GPUSHARE_SIM_CUDA_RUNTIME_H
/* Programs include this header. The toolkit's header of that name has the runtime's API and
 * more. */
#include "cuda_runtime_api.h"

#endif
