/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CUDA_ABI_H
#define GPUSHARE_SHIM_CUDA_ABI_H
/*
 * The part of the CUDA Driver API's binary interface that we call or replace, in our own
 * declarations: types, values and prototypes, one X-macro each. Nothing here needs a toolkit. If a
 * toolkit is found, shim/cuda/cuda_abi_types.c and shim/cuda/cuda_abi_calls.c prove every line
 * against its cuda.h at compile time. The driver table, the simulated driver and the contract tests
 * are made from these lists.
 */
#include <stddef.h>
#include <stdint.h>

#define CUDA_ABI_IPC_HANDLE_SIZE 64
#define CUDA_ABI_UUID_SIZE 16

/* T(our name, name in cuda.h, C type) */
#define CUDA_ABI_SCALARS(T) \
	T(cu_result, CUresult, int) \
	T(cu_device, CUdevice, int) \
	T(cu_device_attribute, CUdevice_attribute, int) \
	T(cu_pointer_attribute, CUpointer_attribute, int) \
	T(cu_memory_type, CUmemorytype, int) \
	T(cu_mem_advice, CUmem_advise, int) \
	T(cu_access_flags, CUmemAccess_flags, int) \
	T(cu_pool_attribute, CUmemPool_attribute, int) \
	T(cu_capture_status, CUstreamCaptureStatus, int) \
	T(cu_capture_mode, CUstreamCaptureMode, int) \
	T(cu_handle_type, CUmemAllocationHandleType, int) \
	T(cu_range_handle_type, CUmemRangeHandleType, int) \
	T(cu_granularity_flags, CUmemAllocationGranularity_flags, int) \
	T(cu_proc_status, CUdriverProcAddressQueryResult, int) \
	T(cu_deviceptr, CUdeviceptr, unsigned long long) \
	T(cu_uint64, cuuint64_t, uint64_t) \
	T(cu_mem_handle, CUmemGenericAllocationHandle, unsigned long long) \
	T(cu_context, CUcontext, struct cu_context_opaque *) \
	T(cu_stream, CUstream, struct cu_stream_opaque *) \
	T(cu_event, CUevent, struct cu_event_opaque *) \
	T(cu_module, CUmodule, struct cu_module_opaque *) \
	T(cu_mem_pool, CUmemoryPool, struct cu_mem_pool_opaque *) \
	T(cu_graph, CUgraph, struct cu_graph_opaque *)

#define CUDA_ABI_STRUCTS(T) \
	T(cu_ipc_mem_handle, CUipcMemHandle) \
	T(cu_ipc_event_handle, CUipcEventHandle) \
	T(cu_uuid, CUuuid) \
	T(cu_mem_location, CUmemLocation) \
	T(cu_mem_prop, CUmemAllocationProp) \
	T(cu_mem_access, CUmemAccessDesc) \
	T(cu_pool_props, CUmemPoolProps)

#ifdef CUDA_ABI_TYPES_FROM_TOOLKIT /* only in the proof: our prototypes over the toolkit's types */
#define T(ours, theirs, is) typedef theirs ours;
CUDA_ABI_SCALARS(T)
#undef T
#define T(ours, theirs) typedef theirs ours;
CUDA_ABI_STRUCTS(T)
#undef T
#else
#define T(ours, theirs, is) typedef is ours;
CUDA_ABI_SCALARS(T)
#undef T

typedef struct cu_ipc_mem_handle {
	char reserved[CUDA_ABI_IPC_HANDLE_SIZE];
} cu_ipc_mem_handle;

typedef struct cu_ipc_event_handle {
	char reserved[CUDA_ABI_IPC_HANDLE_SIZE];
} cu_ipc_event_handle;

typedef struct cu_uuid {
	char bytes[CUDA_ABI_UUID_SIZE];
} cu_uuid;

typedef struct cu_mem_location {
	int type;
	int id;
} cu_mem_location;

typedef struct cu_mem_prop {
	int type;
	int requestedHandleTypes;
	cu_mem_location location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} cu_mem_prop;

typedef struct cu_mem_access {
	cu_mem_location location;
	int flags;
} cu_mem_access;

typedef struct cu_pool_props {
	int allocType;
	int handleTypes;
	cu_mem_location location;
	void *win32SecurityAttributes;
	unsigned char rest[64]; /* zeros; newer toolkits have fields in it */
} cu_pool_props;
#endif

/* F(our struct, struct in cuda.h, field): the build compares the offsets */
#define CUDA_ABI_FIELDS(F) \
	F(cu_ipc_mem_handle, CUipcMemHandle, reserved) \
	F(cu_ipc_event_handle, CUipcEventHandle, reserved) \
	F(cu_uuid, CUuuid, bytes) \
	F(cu_mem_location, CUmemLocation, type) \
	F(cu_mem_location, CUmemLocation, id) \
	F(cu_mem_prop, CUmemAllocationProp, type) \
	F(cu_mem_prop, CUmemAllocationProp, requestedHandleTypes) \
	F(cu_mem_prop, CUmemAllocationProp, location) \
	F(cu_mem_prop, CUmemAllocationProp, win32HandleMetaData) \
	F(cu_mem_prop, CUmemAllocationProp, allocFlags.compressionType) \
	F(cu_mem_prop, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable) \
	F(cu_mem_prop, CUmemAllocationProp, allocFlags.usage) \
	F(cu_mem_access, CUmemAccessDesc, location) \
	F(cu_mem_access, CUmemAccessDesc, flags) \
	F(cu_pool_props, CUmemPoolProps, allocType) \
	F(cu_pool_props, CUmemPoolProps, handleTypes) \
	F(cu_pool_props, CUmemPoolProps, location) \
	F(cu_pool_props, CUmemPoolProps, win32SecurityAttributes)

/* V(our name, name in cuda.h, value) */
#define CUDA_ABI_RESULTS(V) \
	V(CU_OK, CUDA_SUCCESS, 0) \
	V(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1) \
	V(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2) \
	V(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3) \
	V(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4) \
	V(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100) \
	V(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, 101) \
	V(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201) \
	V(CU_MAP_FAILED, CUDA_ERROR_MAP_FAILED, 205) \
	V(CU_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217) \
	V(CU_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, 304) \
	V(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, 400) \
	V(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500) \
	V(CU_NOT_READY, CUDA_ERROR_NOT_READY, 600) \
	V(CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700) \
	V(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709) \
	V(CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED, 800) \
	V(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED, 801) \
	V(CU_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900) \
	V(CU_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901) \
	V(CU_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)

#define CUDA_ABI_VALUES(V) \
	V(CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1) \
	V(CU_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT, 1) \
	V(CU_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2) \
	V(CU_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3) \
	V(CU_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER, 4) \
	V(CU_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID, 7) \
	V(CU_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8) \
	V(CU_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) \
	V(CU_ATTRIBUTE_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11) \
	V(CU_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12) \
	V(CU_ATTRIBUTE_LEGACY_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10) \
	V(CU_ATTRIBUTE_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 14) \
	V(CU_ATTRIBUTE_MEMPOOL, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17) \
	V(CU_POOL_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4) \
	V(CU_POOL_RESERVED, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5) \
	V(CU_POOL_RESERVED_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6) \
	V(CU_POOL_USED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7) \
	V(CU_POOL_USED_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8) \
	V(CU_MEMORY_HOST, CU_MEMORYTYPE_HOST, 1) \
	V(CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE, 2) \
	V(CU_STREAM_NONBLOCKING, CU_STREAM_NON_BLOCKING, 1) \
	V(CU_EVENT_WAITS_BLOCKING, CU_EVENT_BLOCKING_SYNC, 1) \
	V(CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING, 2) \
	V(CU_EVENT_SHARED, CU_EVENT_INTERPROCESS, 4) \
	V(CU_HOST_ALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1) \
	V(CU_HOST_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, 1) \
	V(CU_HOST_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP, 2) \
	V(CU_MANAGED_GLOBAL, CU_MEM_ATTACH_GLOBAL, 1) \
	V(CU_HOST_REGISTER_READ_ONLY, CU_MEMHOSTREGISTER_READ_ONLY, 8) \
	V(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, 1) \
	V(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE, 0) \
	V(CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE, 1) \
	V(CU_CAPTURE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, 0) \
	V(CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2) \
	V(CU_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ, 0) \
	V(CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, 1) \
	V(CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1) \
	V(CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ, 1) \
	V(CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3) \
	V(CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0) \
	V(CU_PROC_DEFAULT, CU_GET_PROC_ADDRESS_DEFAULT, 0) \
	V(CU_PROC_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1) \
	V(CU_PROC_PER_THREAD_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, 2) \
	V(CU_PROC_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1) \
	V(CU_PROC_VERSION_INSUFFICIENT, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2) \
	V(CU_DEVICE_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41) \
	V(CU_DEVICE_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102) \
	V(CU_DEVICE_POSIX_FD_SUPPORTED, \
	  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103) \
	V(CU_DEVICE_HOST_PAGE_TABLES, \
	  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 100) \
	V(CU_DEVICE_HOST_POINTER_REGISTERED, \
	  CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91) \
	V(CU_DEVICE_STREAM_WORDS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122) \
	V(CU_DEVICE_DMA_BUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124) \
	V(CU_RANGE_DMA_BUF_FD, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)

enum cu_abi_values {
#define V(ours, theirs, value) ours = value,
	CUDA_ABI_RESULTS(V) CUDA_ABI_VALUES(V)
#undef V
};

/*
 * F(since, version, name, params): `name` is the exported symbol; `since` is the first CUDA whose
 * cuda.h declares it (the proof skips it below that); `version` is the lowest for which
 * cuGetProcAddress returns this symbol by its name without suffix (_v2, ...); 0: none.
 */
#define CUDA_ABI_CALLS(F) \
	F(2000, 2000, cuInit, (unsigned int flags)) \
	F(2000, 2020, cuDriverGetVersion, (int *version)) \
	F(6000, 6000, cuGetErrorName, (cu_result error, const char **text)) \
	F(6000, 6000, cuGetErrorString, (cu_result error, const char **text)) \
	F(2000, 2000, cuDeviceGet, (cu_device * device, int ordinal)) \
	F(2000, 2000, cuDeviceGetCount, (int *count)) \
	F(2000, 2000, cuDeviceGetName, (char *name, int length, cu_device device)) \
	F(11040, 11040, cuDeviceGetUuid_v2, (cu_uuid * uuid, cu_device device)) \
	F(3020, 3020, cuDeviceTotalMem_v2, (size_t * bytes, cu_device device)) \
	F(2000, 2000, cuDeviceGetAttribute, \
	  (int *value, cu_device_attribute attribute, cu_device device)) \
	F(4000, 4000, cuDeviceCanAccessPeer, (int *can, cu_device device, cu_device peer)) \
	F(11020, 11020, cuDeviceGetDefaultMemPool, (cu_mem_pool * pool, cu_device device)) \
	F(11020, 11020, cuDeviceGetMemPool, (cu_mem_pool * pool, cu_device device)) \
	F(11020, 11020, cuMemPoolCreate, (cu_mem_pool * pool, const cu_pool_props *props)) \
	F(11020, 11020, cuMemPoolDestroy, (cu_mem_pool pool)) \
	F(11020, 11020, cuMemPoolGetAttribute, \
	  (cu_mem_pool pool, cu_pool_attribute attribute, void *value)) \
	F(11020, 11020, cuMemPoolSetAttribute, \
	  (cu_mem_pool pool, cu_pool_attribute attribute, void *value)) \
	F(11020, 11020, cuMemPoolTrimTo, (cu_mem_pool pool, size_t keep)) \
	F(11020, 11020, cuMemPoolGetAccess, \
	  (cu_access_flags * flags, cu_mem_pool pool, cu_mem_location * location)) \
	F(11020, 11020, cuMemPoolSetAccess, \
	  (cu_mem_pool pool, const cu_mem_access *access, size_t count)) \
	F(7000, 7000, cuDevicePrimaryCtxRetain, (cu_context * context, cu_device device)) \
	F(7000, 7000, cuDevicePrimaryCtxRelease, (cu_device device)) \
	F(11000, 11000, cuDevicePrimaryCtxRelease_v2, (cu_device device)) \
	F(7000, 7000, cuDevicePrimaryCtxReset, (cu_device device)) \
	F(11000, 11000, cuDevicePrimaryCtxReset_v2, (cu_device device)) \
	F(7000, 7000, cuDevicePrimaryCtxGetState, \
	  (cu_device device, unsigned int *flags, int *active)) \
	F(3020, 3020, cuCtxCreate_v2, \
	  (cu_context * context, unsigned int flags, cu_device device)) \
	F(2000, 2000, cuCtxDestroy, (cu_context context)) \
	F(4000, 4000, cuCtxDestroy_v2, (cu_context context)) \
	F(4000, 4000, cuCtxPushCurrent_v2, (cu_context context)) \
	F(4000, 4000, cuCtxPopCurrent_v2, (cu_context * context)) \
	F(4000, 4000, cuCtxSetCurrent, (cu_context context)) \
	F(4000, 4000, cuCtxGetCurrent, (cu_context * context)) \
	F(2000, 2000, cuCtxGetDevice, (cu_device * device)) \
	F(2000, 2000, cuCtxSynchronize, (void)) \
	F(13000, 13000, cuCtxSynchronize_v2, (cu_context context)) \
	F(3020, 3020, cuMemGetInfo_v2, (size_t * free, size_t * total)) \
	F(3020, 3020, cuMemAlloc_v2, (cu_deviceptr * pointer, size_t size)) \
	F(3020, 3020, cuMemAllocPitch_v2, \
	  (cu_deviceptr * pointer, size_t * pitch, size_t width, size_t height, \
	   unsigned int element)) \
	F(3020, 3020, cuMemFree_v2, (cu_deviceptr pointer)) \
	F(3020, 3020, cuMemGetAddressRange_v2, \
	  (cu_deviceptr * base, size_t * size, cu_deviceptr pointer)) \
	F(6000, 6000, cuMemAllocManaged, \
	  (cu_deviceptr * pointer, size_t size, unsigned int flags)) \
	F(8000, 8000, cuMemPrefetchAsync, \
	  (cu_deviceptr pointer, size_t size, cu_device to, cu_stream stream)) \
	F(8000, 0, cuMemPrefetchAsync_ptsz, \
	  (cu_deviceptr pointer, size_t size, cu_device to, cu_stream stream)) \
	F(12020, 12020, cuMemPrefetchAsync_v2, \
	  (cu_deviceptr pointer, size_t size, cu_mem_location to, unsigned int flags, \
	   cu_stream stream)) \
	F(12020, 0, cuMemPrefetchAsync_v2_ptsz, \
	  (cu_deviceptr pointer, size_t size, cu_mem_location to, unsigned int flags, \
	   cu_stream stream)) \
	F(8000, 8000, cuMemAdvise, \
	  (cu_deviceptr pointer, size_t size, cu_mem_advice advice, cu_device device)) \
	F(12020, 12020, cuMemAdvise_v2, \
	  (cu_deviceptr pointer, size_t size, cu_mem_advice advice, cu_mem_location location)) \
	F(6000, 6000, cuStreamAttachMemAsync, \
	  (cu_stream stream, cu_deviceptr pointer, size_t size, unsigned int flags)) \
	F(7000, 0, cuStreamAttachMemAsync_ptsz, \
	  (cu_stream stream, cu_deviceptr pointer, size_t size, unsigned int flags)) \
	F(11020, 11020, cuMemAllocAsync, (cu_deviceptr * pointer, size_t size, cu_stream stream)) \
	F(11020, 0, cuMemAllocAsync_ptsz, (cu_deviceptr * pointer, size_t size, cu_stream stream)) \
	F(11020, 11020, cuMemAllocFromPoolAsync, \
	  (cu_deviceptr * pointer, size_t size, cu_mem_pool pool, cu_stream stream)) \
	F(11020, 0, cuMemAllocFromPoolAsync_ptsz, \
	  (cu_deviceptr * pointer, size_t size, cu_mem_pool pool, cu_stream stream)) \
	F(11020, 11020, cuMemFreeAsync, (cu_deviceptr pointer, cu_stream stream)) \
	F(11020, 0, cuMemFreeAsync_ptsz, (cu_deviceptr pointer, cu_stream stream)) \
	F(2020, 2020, cuMemHostAlloc, (void **pointer, size_t size, unsigned int flags)) \
	F(2000, 2000, cuMemFreeHost, (void *pointer)) \
	F(6050, 6050, cuMemHostRegister_v2, (void *pointer, size_t size, unsigned int flags)) \
	F(4000, 4000, cuMemHostUnregister, (void *pointer)) \
	F(3020, 3020, cuMemHostGetDevicePointer_v2, \
	  (cu_deviceptr * device, void *pointer, unsigned int flags)) \
	F(3020, 3020, cuMemcpyHtoD_v2, (cu_deviceptr to, const void *from, size_t size)) \
	F(3020, 3020, cuMemcpyDtoH_v2, (void *to, cu_deviceptr from, size_t size)) \
	F(3020, 3020, cuMemcpyDtoD_v2, (cu_deviceptr to, cu_deviceptr from, size_t size)) \
	F(3020, 3020, cuMemcpyHtoDAsync_v2, \
	  (cu_deviceptr to, const void *from, size_t size, cu_stream stream)) \
	F(3020, 3020, cuMemcpyDtoHAsync_v2, \
	  (void *to, cu_deviceptr from, size_t size, cu_stream stream)) \
	F(4000, 4000, cuMemcpy, (cu_deviceptr to, cu_deviceptr from, size_t size)) \
	F(4000, 4000, cuMemcpyAsync, \
	  (cu_deviceptr to, cu_deviceptr from, size_t size, cu_stream stream)) \
	F(3020, 3020, cuMemsetD8_v2, (cu_deviceptr to, unsigned char value, size_t count)) \
	F(3020, 3020, cuMemsetD32_v2, (cu_deviceptr to, unsigned int value, size_t count)) \
	F(4000, 4000, cuPointerGetAttribute, \
	  (void *value, cu_pointer_attribute attribute, cu_deviceptr pointer)) \
	F(7000, 7000, cuPointerGetAttributes, \
	  (unsigned int count, cu_pointer_attribute *attributes, void **values, \
	   cu_deviceptr pointer)) \
	F(4010, 4010, cuIpcGetMemHandle, (cu_ipc_mem_handle * handle, cu_deviceptr pointer)) \
	F(4010, 4010, cuIpcOpenMemHandle, \
	  (cu_deviceptr * pointer, cu_ipc_mem_handle handle, unsigned int flags)) \
	F(11000, 11000, cuIpcOpenMemHandle_v2, \
	  (cu_deviceptr * pointer, cu_ipc_mem_handle handle, unsigned int flags)) \
	F(4010, 4010, cuIpcCloseMemHandle, (cu_deviceptr pointer)) \
	F(4010, 4010, cuIpcGetEventHandle, (cu_ipc_event_handle * handle, cu_event event)) \
	F(4010, 4010, cuIpcOpenEventHandle, (cu_event * event, cu_ipc_event_handle handle)) \
	F(10020, 10020, cuMemGetAllocationGranularity, \
	  (size_t * granularity, const cu_mem_prop *prop, cu_granularity_flags option)) \
	F(10020, 10020, cuMemCreate, \
	  (cu_mem_handle * handle, size_t size, const cu_mem_prop *prop, \
	   unsigned long long flags)) \
	F(10020, 10020, cuMemRelease, (cu_mem_handle handle)) \
	F(11000, 11000, cuMemRetainAllocationHandle, (cu_mem_handle * handle, void *pointer)) \
	F(10020, 10020, cuMemAddressReserve, \
	  (cu_deviceptr * pointer, size_t size, size_t alignment, cu_deviceptr want, \
	   unsigned long long flags)) \
	F(10020, 10020, cuMemAddressFree, (cu_deviceptr pointer, size_t size)) \
	F(10020, 10020, cuMemMap, \
	  (cu_deviceptr pointer, size_t size, size_t offset, cu_mem_handle handle, \
	   unsigned long long flags)) \
	F(10020, 10020, cuMemUnmap, (cu_deviceptr pointer, size_t size)) \
	F(10020, 10020, cuMemSetAccess, \
	  (cu_deviceptr pointer, size_t size, const cu_mem_access *access, size_t count)) \
	F(10020, 10020, cuMemExportToShareableHandle, \
	  (void *shareable, cu_mem_handle handle, cu_handle_type type, unsigned long long flags)) \
	F(10020, 10020, cuMemImportFromShareableHandle, \
	  (cu_mem_handle * handle, void *shareable, cu_handle_type type)) \
	F(11070, 11070, cuMemGetHandleForAddressRange, \
	  (void *handle, cu_deviceptr pointer, size_t size, cu_range_handle_type type, \
	   unsigned long long flags)) \
	F(2000, 2000, cuStreamCreate, (cu_stream * stream, unsigned int flags)) \
	F(2000, 2000, cuStreamSynchronize, (cu_stream stream)) \
	F(7000, 0, cuStreamSynchronize_ptsz, (cu_stream stream)) \
	F(4000, 4000, cuStreamDestroy_v2, (cu_stream stream)) \
	F(9020, 9020, cuStreamGetCtx, (cu_stream stream, cu_context * context)) \
	F(3020, 3020, cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned int flags)) \
	F(11070, 11070, cuStreamWaitValue32_v2, \
	  (cu_stream stream, cu_deviceptr address, uint32_t value, unsigned int flags)) \
	F(11070, 11070, cuStreamWaitValue64_v2, \
	  (cu_stream stream, cu_deviceptr address, cu_uint64 value, unsigned int flags)) \
	F(11070, 11070, cuStreamWriteValue64_v2, \
	  (cu_stream stream, cu_deviceptr address, cu_uint64 value, unsigned int flags)) \
	F(12000, 12000, cuStreamGetId, (cu_stream stream, unsigned long long *id)) \
	F(10000, 10000, cuLaunchHostFunc, \
	  (cu_stream stream, void (*function)(void *user), void *user)) \
	F(10000, 10000, cuStreamIsCapturing, (cu_stream stream, cu_capture_status * status)) \
	F(10010, 10010, cuStreamBeginCapture_v2, (cu_stream stream, cu_capture_mode mode)) \
	F(10000, 10000, cuStreamEndCapture, (cu_stream stream, cu_graph * graph)) \
	F(10010, 10010, cuThreadExchangeStreamCaptureMode, (cu_capture_mode * mode)) \
	F(10000, 10000, cuGraphDestroy, (cu_graph graph)) \
	F(2000, 2000, cuEventCreate, (cu_event * event, unsigned int flags)) \
	F(2000, 2000, cuEventRecord, (cu_event event, cu_stream stream)) \
	F(2000, 2000, cuEventQuery, (cu_event event)) \
	F(2000, 2000, cuEventSynchronize, (cu_event event)) \
	F(4000, 4000, cuEventDestroy_v2, (cu_event event)) \
	F(11030, 11030, cuGetProcAddress, \
	  (const char *symbol, void **pointer, int version, cu_uint64 flags)) \
	F(12000, 12000, cuGetProcAddress_v2, \
	  (const char *symbol, void **pointer, int version, cu_uint64 flags, \
	   cu_proc_status *status))

#define F(since, version, name, params) typedef cu_result cu_##name##_call params;
CUDA_ABI_CALLS(F)
#undef F

#endif
