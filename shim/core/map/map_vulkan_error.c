/* SPDX-License-Identifier: MIT */
#include "map_vulkan.h"

/* E(result, status, reason): what Vulkan's errors mean for a map of memory */
#define ERRORS(E) \
	E(OUT_OF_HOST_MEMORY, E_NO_MEMORY, "the host has no memory for the mapping") \
	E(OUT_OF_DEVICE_MEMORY, E_NO_MEMORY, \
	  "the GPU's window for the CPU (BAR1 in nvidia-smi -q) has no room for the mapping") \
	E(MEMORY_MAP_FAILED, E_NO_MEMORY, \
	  "the GPU's window for the CPU (BAR1 in nvidia-smi -q) has no room for the mapping") \
	E(TOO_MANY_OBJECTS, E_LIMIT, "Vulkan maps no more allocations; unmap some") \
	E(INVALID_EXTERNAL_HANDLE, E_NOT_SUPPORTED, \
	  "Vulkan does not import this kind of CUDA memory") \
	E(EXTENSION_NOT_PRESENT, E_NOT_SUPPORTED, \
	  "the GPU's Vulkan driver can't import memory (VK_KHR_external_memory_fd)") \
	E(FEATURE_NOT_PRESENT, E_NOT_SUPPORTED, "the GPU's Vulkan driver can't import memory") \
	E(INCOMPATIBLE_DRIVER, E_NOT_SUPPORTED, \
	  "no Vulkan driver was found; in a container the NVIDIA runtime provides it only if " \
	  "NVIDIA_DRIVER_CAPABILITIES contains 'graphics'") \
	E(INITIALIZATION_FAILED, E_NOT_SUPPORTED, "Vulkan does not start here") \
	E(LAYER_NOT_PRESENT, E_NOT_SUPPORTED, \
	  "a Vulkan layer that this machine requires is missing") \
	E(DEVICE_LOST, E_NOT_SUPPORTED, "the GPU was lost; nvidia-smi may say more")

int vulkan_refuse(VkResult result, const char *call)
{
	switch (result) {
#define E(name, status, reason) \
	case VK_ERROR_##name: \
		return api_fail(GPUSHARE_##status, "%s: %s answered VK_ERROR_" #name, reason, call);
		ERRORS(E)
#undef E
	default:
		return api_fail(GPUSHARE_E_NOT_SUPPORTED, "%s answered %d", call, (int)result);
	}
}
