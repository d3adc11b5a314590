/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_GPUS_H
#define GPUSHARE_TOOLS_GPUS_H
/* The GPUs of this machine as the kernel's driver lists them, without CUDA. */
#include "tool.h"

/*
 * "0 H200": the index that nvidia-smi has for the GPU, and its model. False if the driver doesn't
 * list it (a MIG instance, a simulated GPU), or lists several models: CUDA may then count in
 * another order.
 */
bool gpus_label(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[TOOL_TEXT_MAX]);

#endif
