/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOOKS_H
#define GPUSHARE_SHIM_HOOKS_H
/*
 * The one list of what is replaced. H(name, (params), (args)): `name` is the driver's exported
 * symbol. Each has two entries: the exported one, which goes on to whatever would have been found
 * without us (another interposer, say), and hook_<name>, which stands for the driver's own pointer
 * in the answers of dlsym and cuGetProcAddress and goes on to the driver.
 */
#include "cuda_abi.h"

#define SHIM_HOOKS(H) \
	H(cuMemAlloc_v2, (cu_deviceptr * pointer, size_t size), (pointer, size)) \
	H(cuMemAllocPitch_v2, \
	  (cu_deviceptr * pointer, size_t *pitch, size_t width, size_t height, unsigned int element), \
	  (pointer, pitch, width, height, element)) \
	H(cuMemFree_v2, (cu_deviceptr pointer), (pointer)) \
	H(cuGetProcAddress, (const char *symbol, void **pointer, int version, cu_uint64 flags), \
	  (symbol, pointer, version, flags)) \
	H(cuGetProcAddress_v2, \
	  (const char *symbol, void **pointer, int version, cu_uint64 flags, cu_proc_status *status), \
	  (symbol, pointer, version, flags, status))

#define H(name, params, args) cu_##name##_call hook_##name;
SHIM_HOOKS(H)
#undef H

#define SHIM_EXPORT __attribute__((visibility("default")))

#endif
