/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LIST_H
#define GPUSHARE_SHIM_LIST_H
/*
 * The lists of the functions that the shim replaces. Macros only: shim.sym is made from them, too.
 * H(name, (params), (args)): `name` is the driver's exported symbol. Each has three hooks. The
 * exported symbol calls the function that the program would have found without the shim, such as
 * another interposer's. hook_<name> replaces the pointer that dlsym or cuGetProcAddress returns,
 * and calls the replaced function; second_<name> does the same for a second libcuda in the process.
 *
 * SHIM_HOOKS also lists calls that neither allocate nor free:
 * - Queries about a pointer: a named allocation is rounded up to whole blocks, but the program must
 *   see the size that it asked for.
 * - cuMemRetainAllocationHandle: the memory then lives until the new handle is released, too.
 * - Statistics of memory pools: they must count named allocations, too.
 * - SHIM_ADVICE: advice, prefetches and attaching to streams. The driver refuses these calls for
 *   unified memory that stands for managed memory.
 */
/* Two calls with the same parameters. */
#define SHIM_BOTH(H, one, other, params, args) H(one, params, args) H(other, params, args)
#define SHIM_PTSZ(H, name, params, args) SHIM_BOTH(H, name, name##_ptsz, params, args)

#define SHIM_ADVICE(H) \
	SHIM_PTSZ(H, cuMemPrefetchAsync, \
		  (cu_deviceptr pointer, size_t size, cu_device to, cu_stream stream), \
		  (pointer, size, to, stream)) \
	SHIM_PTSZ(H, cuMemPrefetchAsync_v2, \
		  (cu_deviceptr pointer, size_t size, cu_mem_location to, unsigned int flags, \
		   cu_stream stream), \
		  (pointer, size, to, flags, stream)) \
	H(cuMemAdvise, \
	  (cu_deviceptr pointer, size_t size, cu_mem_advice advice, cu_device device), \
	  (pointer, size, advice, device)) \
	H(cuMemAdvise_v2, \
	  (cu_deviceptr pointer, size_t size, cu_mem_advice advice, cu_mem_location location), \
	  (pointer, size, advice, location)) \
	SHIM_PTSZ(H, cuStreamAttachMemAsync, \
		  (cu_stream stream, cu_deviceptr pointer, size_t size, unsigned int flags), \
		  (stream, pointer, size, flags))

#define SHIM_HOOKS(H) \
	H(cuMemAlloc_v2, (cu_deviceptr * pointer, size_t size), (pointer, size)) \
	H(cuMemAllocPitch_v2, \
	  (cu_deviceptr * pointer, size_t * pitch, size_t width, size_t height, \
	   unsigned int element), \
	  (pointer, pitch, width, height, element)) \
	H(cuMemAllocManaged, (cu_deviceptr * pointer, size_t size, unsigned int flags), \
	  (pointer, size, flags)) \
	SHIM_ADVICE(H) \
	SHIM_PTSZ(H, cuMemAllocAsync, (cu_deviceptr * pointer, size_t size, cu_stream stream), \
		  (pointer, size, stream)) \
	SHIM_PTSZ(H, cuMemAllocFromPoolAsync, \
		  (cu_deviceptr * pointer, size_t size, cu_mem_pool pool, cu_stream stream), \
		  (pointer, size, pool, stream)) \
	H(cuMemPoolGetAttribute, (cu_mem_pool pool, cu_pool_attribute attribute, void *value), \
	  (pool, attribute, value)) \
	H(cuMemPoolSetAttribute, (cu_mem_pool pool, cu_pool_attribute attribute, void *value), \
	  (pool, attribute, value)) \
	H(cuMemPoolTrimTo, (cu_mem_pool pool, size_t keep), (pool, keep)) \
	H(cuMemPoolDestroy, (cu_mem_pool pool), (pool)) \
	H(cuMemFree_v2, (cu_deviceptr pointer), (pointer)) \
	SHIM_PTSZ(H, cuMemFreeAsync, (cu_deviceptr pointer, cu_stream stream), (pointer, stream)) \
	H(cuMemCreate, \
	  (cu_mem_handle * handle, size_t size, const cu_mem_prop *prop, \
	   unsigned long long flags), \
	  (handle, size, prop, flags)) \
	H(cuMemRelease, (cu_mem_handle handle), (handle)) \
	H(cuMemRetainAllocationHandle, (cu_mem_handle * handle, void *pointer), (handle, pointer)) \
	H(cuMemMap, \
	  (cu_deviceptr pointer, size_t size, size_t offset, cu_mem_handle handle, \
	   unsigned long long flags), \
	  (pointer, size, offset, handle, flags)) \
	H(cuMemUnmap, (cu_deviceptr pointer, size_t size), (pointer, size)) \
	H(cuIpcGetMemHandle, (cu_ipc_mem_handle * handle, cu_deviceptr pointer), \
	  (handle, pointer)) \
	SHIM_BOTH(H, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, \
		  (cu_deviceptr * pointer, cu_ipc_mem_handle handle, unsigned int flags), \
		  (pointer, handle, flags)) \
	H(cuIpcCloseMemHandle, (cu_deviceptr pointer), (pointer)) \
	H(cuMemGetAddressRange_v2, (cu_deviceptr * base, size_t * size, cu_deviceptr pointer), \
	  (base, size, pointer)) \
	H(cuPointerGetAttribute, \
	  (void *value, cu_pointer_attribute attribute, cu_deviceptr pointer), \
	  (value, attribute, pointer)) \
	H(cuPointerGetAttributes, \
	  (unsigned int count, cu_pointer_attribute *attributes, void **values, \
	   cu_deviceptr pointer), \
	  (count, attributes, values, pointer)) \
	SHIM_BOTH(H, cuCtxDestroy, cuCtxDestroy_v2, (cu_context context), (context)) \
	SHIM_BOTH(H, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (cu_device device), \
		  (device)) \
	SHIM_BOTH(H, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (cu_device device), \
		  (device)) \
	H(cuGetProcAddress, (const char *symbol, void **pointer, int version, cu_uint64 flags), \
	  (symbol, pointer, version, flags)) \
	H(cuGetProcAddress_v2, \
	  (const char *symbol, void **pointer, int version, cu_uint64 flags, \
	   cu_proc_status *status), \
	  (symbol, pointer, version, flags, status))

/* R(symbol, (params), (args)): the runtime's allocating calls. They are exported only to learn the
 * caller and the name of the call. They call the runtime that the caller would have reached. */
#define SHIM_RUNTIME(R) \
	R(cudaMalloc, (void **pointer, size_t size), (pointer, size)) \
	R(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height), \
	  (pointer, pitch, width, height)) \
	R(cudaMalloc3D, (void *pitched, struct runtime_extent extent), (pitched, extent)) \
	R(cudaMallocManaged, (void **pointer, size_t size, unsigned int flags), \
	  (pointer, size, flags)) \
	SHIM_PTSZ(R, cudaMallocAsync, (void **pointer, size_t size, void *stream), \
		  (pointer, size, stream)) \
	SHIM_PTSZ(R, cudaMallocFromPoolAsync, \
		  (void **pointer, size_t size, void *pool, void *stream), \
		  (pointer, size, pool, stream))

/* S(name, params, args): the calls that wait for the GPU. With GPUSHARE_PUBLISH=sync they publish
 * after the wait. As H, but look-ups return these hooks only with GPUSHARE_PUBLISH=sync. */
#define SHIM_SYNC(S) \
	SHIM_PTSZ(S, cuStreamSynchronize, (cu_stream stream), (stream)) \
	S(cuCtxSynchronize, (void), ()) \
	S(cuCtxSynchronize_v2, (cu_context context), (context)) \
	S(cuEventSynchronize, (cu_event event), (event))

/* Calls of the loader: dlsym, to replace what it finds; dlclose, to notice unloaded libraries. */
#define SHIM_LOADER(L) L(dlsym) L(dlclose)

#endif
