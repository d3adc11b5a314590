/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_WAYS_H
#define TESTS_E2E_DRV_WAYS_H
/*
 * Every way to allocate and free memory by the driver: alloc, pitch, managed, async, pool, vmm.
 * Define DRV(call) before including this file. Its functions don't make a context current.
 */
#include "drv_calls.h"
#include "script_marks.h"

static cu_stream drv_streams[128];

static cu_mem_prop drv_prop(void)
{
	cu_mem_prop prop = {.type = CU_ALLOCATION_PINNED};
	cu_device device = 0;

	DRV(cuCtxGetDevice)(&device);
	prop.location.type = CU_LOCATION_DEVICE;
	prop.location.id = device;
	return prop;
}

/* Create memory of the slot's size and map it at the slot's address. */
static int drv_map(struct gpu_slot *slot)
{
	cu_mem_prop prop = drv_prop();
	cu_mem_access access = {.location = prop.location, .flags = CU_ACCESS_READ_WRITE};
	cu_mem_handle object = 0;
	cu_result result = DRV(cuMemCreate)(&object, slot->size, &prop, 0);

	if (!result)
		result = DRV(cuMemMap)(slot->pointer, slot->size, 0, object, 0);
	if (!result)
		result = DRV(cuMemSetAccess)(slot->pointer, slot->size, &access, 1);
	slot->object = object;
	return result;
}

static int drv_make_vmm(struct gpu_slot *slot)
{
	cu_mem_prop prop = drv_prop();
	cu_deviceptr pointer = 0;
	size_t step = 0;
	cu_result result = DRV(cuMemGetAllocationGranularity)(&step, &prop, CU_GRANULARITY_MINIMUM);

	if (result)
		return result;
	slot->size = (slot->size + step - 1) / step * step;
	result = DRV(cuMemAddressReserve)(&pointer, slot->size, 0, 0, 0);
	slot->pointer = pointer;
	return result ? result : drv_map(slot);
}

static int drv_unmap(struct gpu_slot *slot)
{
	cu_result result = DRV(cuMemUnmap)(slot->pointer, slot->size);

	return result ? result : DRV(cuMemRelease)(slot->object);
}

static int drv_drop_vmm(struct gpu_slot *slot)
{
	int result = drv_unmap(slot);

	return result ? result : DRV(cuMemAddressFree)(slot->pointer, slot->size);
}

/* Allocate 64 rows, each with a 64th of the slot's size. */
static int drv_make_pitch(struct gpu_slot *slot, cu_deviceptr *pointer)
{
	size_t pitch = 0;
	cu_result result = DRV(cuMemAllocPitch_v2)(pointer, &pitch, slot->size / 64, 64, 4);

	slot->size = pitch * 64;
	return result;
}

static cu_mem_pool drv_pools[128];

/* Return the pool that poolnew=LETTER created. If there is none, return the current device's
 * default pool. */
static cu_mem_pool drv_pool(const char *letter)
{
	cu_mem_pool pool = drv_pools[(unsigned char)letter[0] & 127];
	cu_device device = 0;

	if (!pool &&
	    (DRV(cuCtxGetDevice)(&device) || DRV(cuDeviceGetDefaultMemPool)(&pool, device)))
		script_stop("no default pool");
	return pool;
}

static int drv_ways_make(struct gpu_slot *slot, const char *way, char stream)
{
	cu_stream in = drv_streams[stream & 127];
	cu_deviceptr pointer = 0;
	int result = -1;

	if (!strcmp(way, "vmm"))
		return drv_make_vmm(slot);
	if (!strcmp(way, "alloc"))
		result = DRV(cuMemAlloc_v2)(&pointer, slot->size);
	else if (!strcmp(way, "pitch"))
		result = drv_make_pitch(slot, &pointer);
	else if (!strcmp(way, "managed"))
		result = DRV(cuMemAllocManaged)(&pointer, slot->size, CU_MANAGED_GLOBAL);
	else if (!strcmp(way, "async"))
		result = DRV(cuMemAllocAsync)(&pointer, slot->size, in);
	else if (!strncmp(way, "pool", 4)) /* or pool:LETTER */
		result = DRV(cuMemAllocFromPoolAsync)(&pointer, slot->size,
						      drv_pool(way[4] ? way + 5 : ""), in);
	else
		script_stop("make: no such way");
	slot->pointer = pointer;
	return result;
}

static int drv_ways_drop(struct gpu_slot *slot, const char *way, char stream)
{
	if (!strcmp(way, "vmm"))
		return drv_drop_vmm(slot);
	if (!strcmp(way, "async") || !strncmp(way, "pool", 4))
		return DRV(cuMemFreeAsync)(slot->pointer, drv_streams[stream & 127]);
	return DRV(cuMemFree_v2)(slot->pointer);
}

/* poolnew=LETTER[,exportable]: create a pool on the current device */
VERB(poolnew, 1, 2)
{
	cu_pool_props props = {.allocType = CU_ALLOCATION_PINNED,
			       .handleTypes = count > 1 ? CU_HANDLE_POSIX_FD : 0,
			       .location = drv_prop().location};

	gpu_say("poolnew", argument[0],
		DRV(cuMemPoolCreate)(&drv_pools[(unsigned char)argument[0][0] & 127], &props));
}

VERB(pooldestroy, 1, 1)
{
	cu_result result = DRV(cuMemPoolDestroy)(drv_pool(argument[0]));

	gpu_say("pooldestroy", argument[0], result);
	if (result == CU_OK)
		drv_pools[(unsigned char)argument[0][0] & 127] = NULL;
}

static unsigned long long drv_pool_number(cu_mem_pool pool, int attribute)
{
	cu_uint64 value = 0;

	if (DRV(cuMemPoolGetAttribute)(pool, (cu_pool_attribute)attribute, &value))
		script_stop("a pool's attribute can't be read");
	return value;
}

/* pool=LETTER: print its statistics */
VERB(pool, 1, 1)
{
	cu_mem_pool pool = drv_pool(argument[0]);

	printf("pool %s: used %llu, at most %llu; reserved %llu, at most %llu\n", argument[0],
	       drv_pool_number(pool, CU_POOL_USED), drv_pool_number(pool, CU_POOL_USED_HIGH),
	       drv_pool_number(pool, CU_POOL_RESERVED),
	       drv_pool_number(pool, CU_POOL_RESERVED_HIGH));
}

/* poolset=LETTER,ATTRIBUTE,VALUE: ATTRIBUTE is a number of enum CUmemPool_attribute */
VERB(poolset, 3, 3)
{
	cu_pool_attribute attribute = (cu_pool_attribute)script_number(argument[1]);
	cu_uint64 value = script_number(argument[2]);

	errno = GPU_ERRNO;
	gpu_say("poolset", argument[0],
		DRV(cuMemPoolSetAttribute)(drv_pool(argument[0]), attribute, &value));
}

/* pooltrim=LETTER,SIZE */
VERB(pooltrim, 2, 2)
{
	errno = GPU_ERRNO;
	gpu_say("pooltrim", argument[0],
		DRV(cuMemPoolTrimTo)(drv_pool(argument[0]), script_number(argument[1])));
}

/* poolaccess=LETTER,DEVICE,FLAGS */
VERB(poolaccess, 3, 3)
{
	cu_mem_access access = {
	    .location = {.type = CU_LOCATION_DEVICE, .id = (int)script_number(argument[1])},
	    .flags = (int)script_number(argument[2])};

	gpu_say("poolaccess", argument[0],
		DRV(cuMemPoolSetAccess)(drv_pool(argument[0]), &access, 1));
}

/* frompool=SLOT,LETTER: print 0 if the driver says that the memory is from that pool, else -1 */
VERB(frompool, 2, 2)
{
	cu_mem_pool pool = NULL;
	int code =
	    DRV(cuPointerGetAttribute)(&pool, CU_ATTRIBUTE_MEMPOOL, gpu_slot(argument[0])->pointer);

	gpu_say("frompool", argument[0], code ? code : pool == drv_pool(argument[1]) ? 0 : -1);
}

/* memset=SLOT,VALUE,SIZE: set bytes by the current device */
VERB(memset, 3, 3)
{
	gpu_say("memset", argument[0],
		DRV(cuMemsetD8_v2)(gpu_slot(argument[0])->pointer,
				   (unsigned char)script_number(argument[1]),
				   script_number(argument[2])));
}

/* remap=SLOT: unmap and release the memory, and map new memory at the same address */
VERB(remap, 1, 1)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	int result = drv_unmap(slot);

	gpu_say("remap", argument[0], result ? result : drv_map(slot));
}

/* handle=SLOT: release the handle of what is mapped there */
VERB(handle, 1, 1)
{
	gpu_say("handle", argument[0], DRV(cuMemRelease)(gpu_slot(argument[0])->object));
}

/* retain=SLOT: get one more handle of what is mapped there, and release it */
VERB(retain, 1, 1)
{
	void *pointer = (void *)(uintptr_t)gpu_slot(argument[0])->pointer;
	cu_mem_handle handle = 0;
	int code = DRV(cuMemRetainAllocationHandle)(&handle, pointer);

	gpu_say("retain", argument[0], code);
	if (!code)
		gpu_say("retain", argument[0], DRV(cuMemRelease)(handle));
}

#define DRV_HOST_NUMA 3 /* CU_MEM_LOCATION_TYPE_HOST_NUMA */

/* hostmem=SLOT,SIZE: create memory of the first NUMA node */
VERB(hostmem, 2, 2)
{
	const cu_mem_prop prop = {.type = CU_ALLOCATION_PINNED,
				  .location = {.type = DRV_HOST_NUMA}};
	cu_mem_handle object = 0;
	int code = DRV(cuMemCreate)(&object, script_number(argument[1]), &prop, 0);

	gpu_slot(argument[0])->object = object;
	gpu_say("hostmem", argument[0], code);
}

/* unmap=SLOT,SIZE: unmap the first SIZE bytes */
VERB(unmap, 2, 2)
{
	gpu_say("unmap", argument[0],
		DRV(cuMemUnmap)(gpu_slot(argument[0])->pointer, script_number(argument[1])));
}

/* range=SLOT: print the allocation's size and the slot's offset in it, from cuMemGetAddressRange
 * and from the pointer attributes */
VERB(range, 1, 1)
{
	cu_deviceptr pointer = gpu_slot(argument[0])->pointer, base = 0, start = 0;
	size_t size = 0, range = 0;
	int code = DRV(cuMemGetAddressRange_v2)(&base, NULL, pointer); /* each may be NULL */

	if (!code)
		code = DRV(cuMemGetAddressRange_v2)(NULL, &size, pointer);
	gpu_say("range", argument[0], code);
	if (code)
		return;
	DRV(cuPointerGetAttribute)(&start, CU_ATTRIBUTE_RANGE_START, pointer);
	DRV(cuPointerGetAttribute)(&range, CU_ATTRIBUTE_RANGE_SIZE, pointer);
	printf("range %s: %zu+%llu, attributes %zu+%llu\n", argument[0], size, pointer - base,
	       range, pointer - start);
}

/* told=SLOT: print what three calls return that ask the driver about the pointer; `nothing`: the
 * last one has set the range's start to 0 */
VERB(told, 1, 1)
{
	cu_deviceptr pointer = gpu_slot(argument[0])->pointer, start = 1;
	cu_pointer_attribute wanted[] = {(cu_pointer_attribute)CU_ATTRIBUTE_RANGE_START};
	void *values[] = {&start};
	cu_deviceptr base;
	size_t size;
	int range = DRV(cuMemGetAddressRange_v2)(&base, &size, pointer);
	int one = DRV(cuPointerGetAttribute)(&size, CU_ATTRIBUTE_RANGE_SIZE, pointer + 1);
	int many = DRV(cuPointerGetAttributes)(1, wanted, values, pointer);

	printf("told %s: %d %d %d%s\n", argument[0], range, one, many, start ? "" : " nothing");
}

static size_t drv_room(void)
{
	size_t free_bytes = 0, total;

	DRV(cuMemGetInfo_v2)(&free_bytes, &total);
	return free_bytes;
}

/* taken=LABEL: print by how many MiB free memory has shrunk since `mark` */
VERB(taken, 1, 1)
{
	printf("taken %s: %lld\n", argument[0],
	       ((long long)marks_then.free_bytes - (long long)drv_room()) >> 20);
}

/* brim=SIZE: allocate until little more than SIZE bytes are free */
VERB(brim, 1, 1)
{
	size_t left = script_number(argument[0]), room = drv_room(), piece = room;
	cu_deviceptr pointer;

	while (room > left + (2 << 20) && piece >= 2 << 20) {
		if (piece > room - left)
			piece = room - left;
		if (DRV(cuMemAlloc_v2)(&pointer, piece))
			piece /= 2;
		room = drv_room();
	}
	printf("brim: %s\n", room <= left + (4 << 20) ? "full" : "not full");
}

/* ipcget=SLOT,FILE: save the driver's IPC handle of it, as a program without gpushare does */
VERB(ipcget, 2, 2)
{
	cu_ipc_mem_handle handle;
	int code = DRV(cuIpcGetMemHandle)(&handle, gpu_slot(argument[0])->pointer);

	gpu_say("ipcget", argument[0], code);
	if (!code)
		script_save(argument[1], &handle, sizeof(handle));
}

/* ipcopen=SLOT,FILE,SIZE */
VERB(ipcopen, 3, 3)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	FILE *file = fopen(argument[1], "rb");
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer = 0;
	int code;

	if (!file || fread(&handle, sizeof(handle), 1, file) != 1)
		script_stop("ipcopen: no handle");
	fclose(file);
	code = DRV(cuIpcOpenMemHandle_v2)(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS);
	slot->pointer = pointer;
	slot->size = script_number(argument[2]);
	gpu_say("ipcopen", argument[0], code);
}

VERB(ipcclose, 1, 1)
{
	gpu_say("ipcclose", argument[0], DRV(cuIpcCloseMemHandle)(gpu_slot(argument[0])->pointer));
}

#endif
