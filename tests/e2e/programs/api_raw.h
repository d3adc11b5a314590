/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_RAW_H
#define GPUSHARE_TESTS_API_RAW_H
/* Memory that api_app allocates by the driver, as programs do that share their own allocations. */

#include "cuda/cuda_abi.h"
#include "script.h"

static cu_deviceptr *raw_of(const char *slot)
{
	static cu_deviceptr pointers[128];

	return &pointers[(unsigned char)slot[0] & 127];
}

/* Return mapped and accessible memory of cuMemCreate; exportable: as a file descriptor. */
static cu_deviceptr map_raw(void *library, size_t size, bool exportable)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = exportable ? CU_HANDLE_POSIX_FD : 0,
	    .location = {.type = CU_LOCATION_DEVICE},
	};
	const cu_mem_access access = {{.type = CU_LOCATION_DEVICE}, CU_ACCESS_READ_WRITE};
	cu_mem_handle handle;
	cu_deviceptr pointer = 0;

#define CALL(name) cu_##name##_call *name = dlsym(library, #name)
	CALL(cuMemCreate);
	CALL(cuMemAddressReserve);
	CALL(cuMemMap);
	CALL(cuMemSetAccess);
#undef CALL
	if (!cuMemCreate || !cuMemAddressReserve || !cuMemMap || !cuMemSetAccess ||
	    cuMemCreate(&handle, size, &prop, 0) || cuMemAddressReserve(&pointer, size, 0, 0, 0) ||
	    cuMemMap(pointer, size, 0, handle, 0) || cuMemSetAccess(pointer, size, &access, 1))
		script_stop("raw: a driver call failed");
	return pointer;
}

/* Make the device's primary context current. Return the handle of libcuda. */
static void *raw_enter(int ordinal)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device;
	cu_context context;

#define CALL(name) cu_##name##_call *name = library ? dlsym(library, #name) : NULL
	CALL(cuInit);
	CALL(cuDeviceGet);
	CALL(cuDevicePrimaryCtxRetain);
	CALL(cuCtxSetCurrent);
#undef CALL
	if (!cuInit || !cuDeviceGet || !cuDevicePrimaryCtxRetain || !cuCtxSetCurrent || cuInit(0) ||
	    cuDeviceGet(&device, ordinal) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		script_stop("a driver call failed");
	return library;
}

/* raw=SLOT,SIZE[,KIND]: allocate by cuMemAlloc in device 0's primary context. KIND: here: in the
 * current context; managed, async, host: by another call; vmm, private: by cuMemCreate, with and
 * without a handle type; static: memory that CUDA doesn't know */
VERB(raw, 2, 3)
{
	static char outside[4096];
	const char *kind = count > 2 ? argument[2] : "";
	size_t size = script_number(argument[1]);
	void *library = strcmp(kind, "here") ? raw_enter(0) : dlopen("libcuda.so.1", RTLD_NOW);
	cu_deviceptr pointer = 0;
	cu_result result = CU_OK;

#define CALL(name) cu_##name##_call *name = dlsym(library, #name)
	CALL(cuMemAlloc_v2);
	CALL(cuMemAllocManaged);
	CALL(cuMemAllocAsync);
	CALL(cuMemHostAlloc);
#undef CALL
	if (!cuMemAlloc_v2 || !cuMemAllocManaged || !cuMemAllocAsync || !cuMemHostAlloc)
		script_stop("no driver");
	if (!strcmp(kind, "managed"))
		result = cuMemAllocManaged(&pointer, size, CU_MANAGED_GLOBAL);
	else if (!strcmp(kind, "async"))
		result = cuMemAllocAsync(&pointer, size, NULL);
	else if (!strcmp(kind, "host"))
		result = cuMemHostAlloc((void **)&pointer, size, 0);
	else if (!strcmp(kind, "static"))
		pointer = (uintptr_t)outside;
	else if (!strcmp(kind, "vmm") || !strcmp(kind, "private"))
		pointer = map_raw(library, size, !strcmp(kind, "vmm"));
	else
		result = cuMemAlloc_v2(&pointer, size);
	if (result)
		script_stop("raw: a driver call failed");
	*raw_of(argument[0]) = pointer;
}

#endif
