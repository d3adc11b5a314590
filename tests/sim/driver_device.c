/* SPDX-License-Identifier: MIT */
/* Devices: count, identity, size, attributes. */

#include "driver_vmm.h"

/* CUdevice_attribute values that programs ask for at their start */
enum {
	DEVICE_MAX_THREADS = 1,
	DEVICE_WARP = 10,
	DEVICE_PROCESSORS = 16,
	DEVICE_MAJOR = 75,
	DEVICE_MINOR = 76,
	DEVICE_MANAGED = 83,
	DEVICE_READ_ONLY_REGISTER = 113,
	DEVICE_HOST_NUMA_ID = 134,
	DEVICE_HOST_NUMA_VMM = 141,
	DEVICE_COMPRESSION = 107,
	DEVICE_POOLS = 115,
	DEVICE_FABRIC = 128, /* the device supports it, but cuMemCreate refuses it */
	DEVICE_DMA_BUF_MMAP = 152,
	DEVICE_LAST = 200,
};

CALL(cuDeviceGet, NEED_INIT, (cu_device * device, int ordinal), (device, ordinal))
{
	if (!device)
		return CU_INVALID_VALUE;
	if (!state_device_good(ordinal))
		return CU_INVALID_DEVICE;
	*device = ordinal;
	return CU_OK;
}

CALL(cuDeviceGetCount, NEED_INIT, (int *count), (count))
{
	if (!count)
		return CU_INVALID_VALUE;
	*count = state.device_count;
	return CU_OK;
}

CALL(cuDeviceGetName, NEED_INIT, (char *name, int length, cu_device device), (name, length, device))
{
	if (!name || length <= 0)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	snprintf(name, (size_t)length, "gpushare simulated device");
	return CU_OK;
}

CALL(cuDeviceGetUuid_v2, NEED_INIT, (cu_uuid * uuid, cu_device device), (uuid, device))
{
	if (!uuid)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	state_uuid(state.physical[device], uuid);
	return CU_OK;
}

CALL(cuDeviceTotalMem_v2, NEED_INIT, (size_t * bytes, cu_device device), (bytes, device))
{
	if (!bytes)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	*bytes = state.capacity;
	return CU_OK;
}

CALL(cuDeviceGetAttribute, NEED_INIT, (int *value, cu_device_attribute attribute, cu_device device),
     (value, attribute, device))
{
	if (!value || (int)attribute <= 0 || (int)attribute > DEVICE_LAST)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	switch ((int)attribute) {
	case DEVICE_MAX_THREADS:
		*value = 1024;
		break;
	case DEVICE_WARP:
		*value = 32;
		break;
	case DEVICE_MAJOR:
		*value = 9;
		break;
	case DEVICE_PROCESSORS:
	case DEVICE_MANAGED:
	case DEVICE_COMPRESSION:
	case DEVICE_POOLS:
	case DEVICE_FABRIC:
	case DEVICE_READ_ONLY_REGISTER:
	case CU_DEVICE_HOST_POINTER_REGISTERED:
	case CU_DEVICE_DMA_BUF:
	case CU_DEVICE_UNIFIED_ADDRESSING:
	case CU_DEVICE_VMM_SUPPORTED:
	case CU_DEVICE_POSIX_FD_SUPPORTED:
		*value = 1;
		break;
	case DEVICE_HOST_NUMA_ID:
		*value = state.host_numa - 1;
		break;
	case CU_DEVICE_STREAM_WORDS:
		*value = state.stream_words;
		break;
	case DEVICE_HOST_NUMA_VMM:
		*value = state.host_numa;
		break;
	case DEVICE_DMA_BUF_MMAP:
		*value = dmabuf_promises_mmap();
		break;
	default:
		*value = 0;
	}
	return CU_OK;
}

CALL(cuDeviceCanAccessPeer, NEED_INIT, (int *can, cu_device device, cu_device peer),
     (can, device, peer))
{
	if (!can)
		return CU_INVALID_VALUE;
	if (!state_device_good(device) || !state_device_good(peer))
		return CU_INVALID_DEVICE;
	*can = device != peer && state.peers;
	return CU_OK;
}
