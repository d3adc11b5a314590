/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_SIM_UUID_H
#define GPUSHARE_TESTS_SIM_SIM_UUID_H
/* UUIDs of the machine's devices, the same for CUDA and for Vulkan. */
#include <string.h>

#include "cuda/cuda_abi.h"

static inline void sim_uuid(int physical, void *out_bytes)
{
	static const unsigned char model[CUDA_ABI_UUID_SIZE] = {0x51, 0x6d, 0x75, 0x1a, 0x7e, 0xd0,
								0x4a, 0x11, 0x8e, 0x00, 0x67, 0x70,
								0x75, 0x73, 0x68, 0x00};
	unsigned char *bytes = out_bytes;

	memcpy(bytes, model, sizeof(model));
	bytes[0] = (unsigned char)(model[0] + 37 * physical); /* makes prefixes unique */
	bytes[15] = (unsigned char)physical;
}

#endif
