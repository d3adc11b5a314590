/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_GPUS_H
#define GPUSHARE_TOOLS_GPUS_H
/* The GPUs of this machine as the kernel's driver lists them, without CUDA. */
#include "tool.h"

/*
 * Write the GPU's index in nvidia-smi and its model, such as "0 H200". Returns false if the driver
 * doesn't list the GPU (a MIG instance, a simulated GPU). Returns false, too, if the driver lists
 * several models: CUDA may then number the GPUs in another order.
 */
bool gpus_label(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX]);

#endif
