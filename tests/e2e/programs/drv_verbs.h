/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_VERBS_H
#define TESTS_E2E_DRV_VERBS_H
/* Fills in struct gpu with the driver API. Define DRV(call) before including this file. */
#include "drv_contexts.h"
#include "drv_managed.h"
#include "drv_streams.h"
#include "gpu_many.h"

/* A new thread has no current context: drv_alloc() sets the one of this call. */
static int drv_device(int ordinal)
{
	cu_device device;
	cu_result result = DRV(cuDeviceGet)(&device, ordinal);

	if (!result)
		result = DRV(cuDevicePrimaryCtxRetain)(&drv_context, device);
	if (!result)
		result = DRV(cuCtxSetCurrent)(drv_context);
	return result;
}

static int drv_init(void)
{
	cu_result result = DRV(cuInit)(0);

	return result ? result : drv_device(0);
}

static int drv_alloc(uint64_t *out_pointer, size_t size)
{
	cu_deviceptr pointer = 0;
	cu_result result;

	DRV(cuCtxSetCurrent)(drv_context);
	errno = GPU_ERRNO;
	result = DRV(cuMemAlloc_v2)(&pointer, size);
	*out_pointer = pointer;
	return result;
}

static int drv_pitch(uint64_t *out_pointer, size_t *out_pitch, size_t width, size_t height)
{
	cu_deviceptr pointer = 0;
	cu_result result = DRV(cuMemAllocPitch_v2)(&pointer, out_pitch, width, height, 4);

	*out_pointer = pointer;
	return result;
}

static int drv_free(uint64_t pointer)
{
	return DRV(cuMemFree_v2)(pointer);
}

static int drv_write(uint64_t to, const void *from, size_t size)
{
	return DRV(cuMemcpyHtoD_v2)(to, from, size);
}

static int drv_read(void *to, uint64_t from, size_t size)
{
	return DRV(cuMemcpyDtoH_v2)(to, from, size);
}

static void drv_use(void)
{
	gpu = (struct gpu){drv_init,  drv_device, drv_alloc,	 drv_pitch,    drv_free,
			   drv_write, drv_read,	  drv_ways_make, drv_ways_drop};
}

#endif
