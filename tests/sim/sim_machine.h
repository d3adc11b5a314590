/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_SIM_MACHINE_H
#define GPUSHARE_TESTS_SIM_SIM_MACHINE_H
/* The machine's devices, the same for CUDA, Vulkan and NVML, and how its settings are read. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

#define SIM_UUID_TEXT (sizeof("GPU-") + 2 * CUDA_ABI_UUID_SIZE + 4)

static inline void sim_uuid_text(int physical, char out[SIM_UUID_TEXT])
{
	unsigned char bytes[CUDA_ABI_UUID_SIZE];
	char *to = out + sprintf(out, "GPU-");

	sim_uuid(physical, bytes);
	for (int i = 0; i < CUDA_ABI_UUID_SIZE; i++)
		to += sprintf(to, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      bytes[i]);
}

static inline bool sim_parse_size(const char *text, uint64_t *size)
{
	static const char units[] = "KMG";
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (end == text || *text == '-')
		return false;
	if (*end && strchr(units, *end)) {
		value <<= 10 * (strchr(units, *end) - units + 1);
		end++;
		if (*end == 'i')
			end++;
	}
	*size = value;
	return *end == '\0' && value > 0;
}

#endif
