/* SPDX-License-Identifier: MIT */
#include "map_vulkan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PROOF_SIZE ((uint64_t)64 << 10)
#define PROOF_PLACE (PROOF_SIZE - 4096) /* not where a page of its own would begin */

/* After a success Vulkan owns the descriptor and closes it. */
static int import(const struct vulkan_device *device, uint32_t type, int fd, uint64_t size,
		  VkDeviceMemory *out_memory)
{
	VkImportMemoryFdInfoKHR from = {
	    .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
	    .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
	    .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
	};
	const VkMemoryAllocateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	    .pNext = &from,
	    .allocationSize = size,
	    .memoryTypeIndex = type,
	};
	VkResult result;

	if (from.fd < 0)
		return api_fail(GPUSHARE_E_LIMIT,
				"no file descriptor is left (%s); see 'ulimit -n'",
				strerror(errno));
	result = device->AllocateMemory(device->device, &info, NULL, out_memory);
	if (result == VK_SUCCESS)
		return GPUSHARE_OK;
	close(from.fd);
	return vulkan_refuse(result, "vkAllocateMemory");
}

int vulkan_import(const struct vulkan_device *device, uint32_t type, int fd, uint64_t size,
		  struct vulkan_memory *out_memory)
{
	struct vulkan_memory fresh;
	VkResult result;
	int status = import(device, type, fd, size, &fresh.memory);

	if (status)
		return status;
	result =
	    device->MapMemory(device->device, fresh.memory, 0, VK_WHOLE_SIZE, 0, &fresh.address);
	if (result != VK_SUCCESS) {
		device->FreeMemory(device->device, fresh.memory, NULL);
		return vulkan_refuse(result, "vkMapMemory");
	}
	*out_memory = fresh;
	return GPUSHARE_OK;
}

void vulkan_free(const struct vulkan_device *device, VkDeviceMemory memory)
{
	device->UnmapMemory(device->device, memory);
	device->FreeMemory(device->device, memory, NULL);
}

/* Vulkan wants whole atoms, or a range to the end of the memory, which may end within an atom. */
int vulkan_sync(const struct vulkan_device *device, VkDeviceMemory memory, uint64_t size,
		uint64_t offset, uint64_t length, bool flush)
{
	uint64_t atom = device->atom_size ? device->atom_size : 1;
	uint64_t start = offset / atom * atom;
	uint64_t end = (offset + length + atom - 1) / atom * atom;
	const VkMappedMemoryRange range = {
	    .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
	    .memory = memory,
	    .offset = start,
	    .size = end < size ? end - start : VK_WHOLE_SIZE,
	};
	VkResult result = flush ? device->FlushMappedMemoryRanges(device->device, 1, &range)
				: device->InvalidateMappedMemoryRanges(device->device, 1, &range);

	if (result == VK_SUCCESS)
		return GPUSHARE_OK;
	return vulkan_refuse(result, flush ? "vkFlushMappedMemoryRanges"
					   : "vkInvalidateMappedMemoryRanges");
}

/* Memory of our own and its descriptor. *out_fd may be set after a failure too. */
static VkResult proof_make(const struct vulkan_device *device, uint32_t type,
			   struct vulkan_memory *out_memory, int *out_fd)
{
	static const VkExportMemoryAllocateInfo may_leave = {
	    .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
	    .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
	};
	const VkMemoryAllocateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	    .pNext = &may_leave,
	    .allocationSize = PROOF_SIZE,
	    .memoryTypeIndex = type,
	};
	VkMemoryGetFdInfoKHR wanted = {
	    .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
	    .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
	};
	VkResult result = device->AllocateMemory(device->device, &info, NULL, &out_memory->memory);

	if (result != VK_SUCCESS)
		return result;
	wanted.memory = out_memory->memory;
	result = device->GetMemoryFdKHR(device->device, &wanted, out_fd);
	if (result == VK_SUCCESS)
		result = device->MapMemory(device->device, out_memory->memory, 0, VK_WHOLE_SIZE, 0,
					   &out_memory->address);
	if (result != VK_SUCCESS)
		device->FreeMemory(device->device, out_memory->memory, NULL);
	return result;
}

/* `one` stores, and `other` sees it. */
static int proof_carry(const struct vulkan_device *device, bool coherent,
		       const struct vulkan_memory *one, const struct vulkan_memory *other,
		       uint64_t value)
{
	volatile uint64_t *to = (void *)((char *)one->address + PROOF_PLACE);
	const volatile uint64_t *from = (void *)((char *)other->address + PROOF_PLACE);
	int status = GPUSHARE_OK;

	*to = value;
	atomic_thread_fence(memory_order_seq_cst);
	if (!coherent)
		status =
		    vulkan_sync(device, one->memory, PROOF_SIZE, PROOF_PLACE, sizeof(value), true);
	if (!status && !coherent)
		status = vulkan_sync(device, other->memory, PROOF_SIZE, PROOF_PLACE, sizeof(value),
				     false);
	if (status || *from == value)
		return status;
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"what a test wrote through this GPU's Vulkan driver is not in the GPU's "
			"memory: tried on memory of our own");
}

int vulkan_prove(const struct vulkan_device *device, uint32_t type)
{
	bool coherent =
	    device->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	struct vulkan_memory made, imported;
	_cleanup_close_ int fd = -1;
	int status;

	if (device->proven & 1u << type)
		return GPUSHARE_OK;
	/* A full GPU has no room for the proof, but its memory can be mapped: the next map tries
	 * again. */
	if (proof_make(device, type, &made, &fd) != VK_SUCCESS)
		return GPUSHARE_OK;
	status = vulkan_import(device, type, fd, PROOF_SIZE, &imported);
	if (!status) {
		status =
		    proof_carry(device, coherent, &made, &imported, UINT64_C(0x5ea7ed0b57ac1e5));
		if (!status)
			status = proof_carry(device, coherent, &imported, &made,
					     UINT64_C(0xca11ab1e0ff1ce));
		vulkan_free(device, imported.memory);
	}
	vulkan_free(device, made.memory);
	if (!status)
		vulkan_set_proven(device, type);
	return status;
}
