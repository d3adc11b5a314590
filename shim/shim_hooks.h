/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOOKS_H
#define GPUSHARE_SHIM_HOOKS_H
/* The entries that shim_list.h's driver calls are replaced by. */
#include "cuda_abi.h"
#include "shim_list.h"

#define H(name, params, args) cu_##name##_call hook_##name;
SHIM_HOOKS(H)
#undef H

#define SHIM_EXPORT __attribute__((visibility("default")))

#endif
