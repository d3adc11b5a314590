/* SPDX-License-Identifier: MIT */
/* VMM addresses: reservations, the mappings in them, and access to these. */

#include <utlist.h>

#include "driver_vmm.h"

#define MAP_WHOLE ((uint64_t)32 << 20)

struct reservation {
	struct reservation *next;
	uint64_t start, size;
	uint64_t asked; /* size that the caller asked for */
};

static struct reservation *reservations;

/*
 * Measured on an H100 (driver 580.159.04). If size and alignment are below MAP_WHOLE, the driver
 * takes the addresses from a pool of its own and ignores the wanted address. It rounds any other
 * reservation up to MAP_WHOLE, and uses the wanted address if that is free.
 */
static void map_round(uint64_t *size, uint64_t *alignment, cu_deviceptr *want)
{
	if (*size < MAP_WHOLE && *alignment < MAP_WHOLE) {
		*alignment = *alignment < SIM_BLOCK ? SIM_BLOCK : *alignment;
		*want = 0;
		return;
	}
	*size = (*size + MAP_WHOLE - 1) / MAP_WHOLE * MAP_WHOLE;
	*want = (*want + MAP_WHOLE - 1) / MAP_WHOLE * MAP_WHOLE;
	*alignment = *alignment < MAP_WHOLE ? MAP_WHOLE : *alignment;
}

CALL_LOGGED(cuMemAddressReserve, NEED_INIT,
	    (cu_deviceptr * pointer, size_t size, size_t alignment, cu_deviceptr want,
	     unsigned long long flags),
	    (pointer, size, alignment, want, flags), answer_ == CU_OK ? *pointer : 0, size)
{
	if (flags || !pointer || !size || size % SIM_BLOCK || size > (uint64_t)1 << 46 ||
	    (alignment & (alignment - 1)))
		return CU_INVALID_VALUE;
	if (want && alignment && want % alignment)
		return CU_INVALID_VALUE;
	struct reservation model = {.size = size, .asked = size};
	map_round(&model.size, &alignment, &want);
	struct reservation *reservation = malloc(sizeof(*reservation));
	if (!reservation)
		return CU_OUT_OF_MEMORY;
	STATE_LOCKED;
	void *address = address_reserve(model.size, alignment, want);
	if (!address) {
		free(reservation);
		return CU_OUT_OF_MEMORY;
	}
	*reservation = model;
	reservation->start = (uintptr_t)address;
	LL_PREPEND(reservations, reservation);
	*pointer = reservation->start;
	return CU_OK;
}

CALL_LOGGED(cuMemAddressFree, NEED_INIT, (cu_deviceptr start, size_t size), (start, size), start,
	    size)
{
	struct reservation *reservation;

	STATE_LOCKED;
	LL_SEARCH_SCALAR(reservations, reservation, start, start);
	if (!reservation || reservation->asked != size || region_overlaps(start, size))
		return CU_INVALID_VALUE;
	LL_DELETE(reservations, reservation);
	munmap((void *)(uintptr_t)start, reservation->size);
	free(reservation);
	return CU_OK;
}

static const struct reservation *map_reserved(uint64_t start, uint64_t size)
{
	for (const struct reservation *at = reservations; at; at = at->next) {
		if (start >= at->start && size <= at->size && start - at->start <= at->size - size)
			return at;
	}
	return NULL;
}

/* Under the lock. */
bool map_reservation(uint64_t address, uint64_t *start, uint64_t *size)
{
	const struct reservation *at = map_reserved(address, 1);

	if (!at)
		return false;
	*start = at->start;
	*size = at->size;
	return true;
}

CALL_LOGGED(cuMemMap, NEED_INIT,
	    (cu_deviceptr start, size_t size, size_t offset, cu_mem_handle handle,
	     unsigned long long flags),
	    (start, size, offset, handle, flags), start, size)
{
	if (flags || !size || start % SIM_BLOCK || size % SIM_BLOCK || offset % SIM_BLOCK)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	struct object *object = vmm_find(handle);
	if (!object || size > object->size || offset > object->size - size ||
	    !map_reserved(start, size) || region_overlaps(start, size))
		return CU_INVALID_VALUE;
	if (size != object->size)
		return CU_NOT_SUPPORTED; /* only a whole handle can be mapped */
	struct region region = {
	    .start = start,
	    .size = size,
	    .kind = REGION_MAPPED,
	    .device = object->device,
	    .owner = object,
	};
	if (mmap((void *)(uintptr_t)start, size, PROT_NONE, MAP_SHARED | MAP_FIXED, object->fd,
		 0) == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	madvise((void *)(uintptr_t)start, size, MADV_DONTFORK);
	if (!region_add(&region))
		return CU_OUT_OF_MEMORY;
	object->mappings++;
	return CU_OK;
}

/* Return true if the range consists of whole mappings without a gap. */
static bool map_whole(uint64_t start, uint64_t size)
{
	while (size) {
		const struct region *region = region_exactly(start);
		if (!region || region->kind != REGION_MAPPED || region->size > size)
			return false;
		start += region->size;
		size -= region->size;
	}
	return true;
}

/* Return the mapping at `start`, or else the next one below `end`. NULL: none. All mappings are
 * multiples of a block. */
static struct region *map_first(uint64_t start, uint64_t end)
{
	struct region *region = NULL;

	for (; !region && start < end; start += SIM_BLOCK)
		region = region_find(start);
	return region;
}

/* Return true if the range cuts no mapping in two. Gaps between mappings are allowed. */
static bool map_cuts_none(uint64_t start, uint64_t end)
{
	while (start < end) {
		const struct region *region = map_first(start, end);
		if (!region)
			return true;
		if (region->start < start || region->start + region->size > end)
			return false;
		start = region->start + region->size;
	}
	return true;
}

/* Unlike cuMemFree, unmapping waits for no work. */
CALL_LOGGED(cuMemUnmap, NEED_INIT, (cu_deviceptr start, size_t size), (start, size), start, size)
{
	uint64_t end = start + size;
	struct region *region;

	STATE_LOCKED;
	if (!size || start % SIM_BLOCK || size % SIM_BLOCK || !map_reserved(start, size) ||
	    !map_cuts_none(start, end))
		return CU_INVALID_VALUE;
	if (mmap((void *)(uintptr_t)start, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	while ((region = map_first(start, end))) {
		struct object *object = region->owner;
		start = region->start + region->size;
		region_remove(region);
		object->mappings--;
		vmm_unref(object);
	}
	return CU_OK;
}

static bool map_is_cpu(const cu_mem_access *access)
{
	return (int)access->location.type == VMM_LOCATION_HOST ||
	       (int)access->location.type == VMM_LOCATION_HOST_NUMA;
}

static int map_protection(const struct region *region)
{
	int flags = region->access | region->cpu_access;

	return (flags & CU_ACCESS_READ ? PROT_READ : 0) |
	       (flags == CU_ACCESS_READ_WRITE ? PROT_WRITE : 0);
}

static cu_result map_access_good(const cu_mem_access *access, const struct object *object)
{
	int flags = (int)access->flags;

	if (flags != 0 && flags != CU_ACCESS_READ && flags != CU_ACCESS_READ_WRITE)
		return CU_INVALID_VALUE;
	if ((int)access->location.type == CU_LOCATION_DEVICE)
		return state_device_good(access->location.id) &&
			       (object->host ||
				state_reaches(access->location.id, object->physical))
			   ? CU_OK
			   : CU_INVALID_DEVICE;
	/* The CPU can get access to host memory, but never to device memory. */
	return object->host && map_is_cpu(access) ? CU_OK : CU_NOT_SUPPORTED;
}

CALL_LOGGED(cuMemSetAccess, NEED_INIT,
	    (cu_deviceptr start, size_t size, const cu_mem_access *access, size_t count),
	    (start, size, access, count), start, size)
{
	if (!access || !count || !size)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	if (!map_whole(start, size))
		return CU_INVALID_VALUE;
	const struct object *object = region_exactly(start)->owner;
	int flags[2] = {-1, -1};   /* of the devices, of the CPU; -1: unchanged */
	int seen[SIM_DEVICES_MAX]; /* by device; -1: unchanged */
	memset(seen, -1, sizeof(seen));
	for (size_t i = 0; i < count; i++) {
		cu_result result = map_access_good(&access[i], object);
		int *side = &flags[map_is_cpu(&access[i])];
		if (result != CU_OK)
			return result;
		*side = (*side < 0 ? 0 : *side) | (int)access[i].flags;
		if (side == flags)
			seen[access[i].location.id] = (int)access[i].flags;
	}
	for (uint64_t end = start + size; start < end;) {
		struct region *region = region_exactly(start);
		region->access = flags[0] < 0 ? region->access : flags[0];
		region->cpu_access = flags[1] < 0 ? region->cpu_access : flags[1];
		for (int device = 0; device < SIM_DEVICES_MAX; device++)
			if (seen[device] >= 0)
				region->seen[device] = (uint8_t)seen[device];
		if (mprotect((void *)(uintptr_t)start, region->size, map_protection(region)) < 0)
			return CU_INVALID_VALUE;
		if (state.populate && map_protection(region) & PROT_READ)
			madvise((void *)(uintptr_t)start, region->size,
				map_protection(region) & PROT_WRITE ? MADV_POPULATE_WRITE
								    : MADV_POPULATE_READ);
		start += region->size;
	}
	return CU_OK;
}
