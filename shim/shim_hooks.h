/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOOKS_H
#define GPUSHARE_SHIM_HOOKS_H
/* The entries that shim_list.h's driver calls are replaced by. */
#include "cuda_abi.h"
#include "shim_list.h"

#define H(name, params, args) cu_##name##_call hook_##name;
SHIM_HOOKS(H)
SHIM_SYNC(H)
#undef H

/* What an exported entry goes on to: the next definition behind ours. */
void *hooks_find_next(const void *caller, const char *symbol);

#define SHIM_EXPORT __attribute__((visibility("default")))

#endif
