/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SIM_CUDA_RUNTIME_H
#define GPUSHARE_SIM_CUDA_RUNTIME_H
/* What programs include: the toolkit's header of that name is the runtime's API and more. */
#include "cuda_runtime_api.h"

#endif
