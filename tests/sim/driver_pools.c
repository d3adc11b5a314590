/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: each device's default pool, and pools that programs create. A pool's reserved size
 * is only a counter here, by rules measured on an H200 (driver 580.159.04). Device memory is taken
 * only for what is allocated.
 */

#include <utlist.h>

#include "driver_stream.h"

#define POOL_PIECE ((uint64_t)32 << 20) /* bytes: unit of reserving and giving back */

/* CUmemPool_attribute values that cuda_abi.h does not name */
enum { POOL_REUSE_FIRST = 1, POOL_REUSE_LAST = 3 };

struct cu_mem_pool_opaque {
	struct cu_mem_pool_opaque *next; /* in `pools_made` or `pools_ended` */
	cu_device device;
	bool made;
	int handle_types, reuse_not[POOL_REUSE_LAST + 1];
	uint64_t threshold, reserved, reserved_high;
	uint64_t used, used_high;
	uint64_t live;	   /* allocated and not freed */
	uint64_t unsynced; /* freed, but no synchronization since then has seen the free done */
	bool seen[SIM_DEVICES_MAX];
};

static struct cu_mem_pool_opaque pools[SIM_DEVICES_MAX];
static struct cu_mem_pool_opaque *pools_made, *pools_ended;

uint64_t pool_handle_types(const struct region *region)
{
	return region->pool ? (uint64_t)region->pool->handle_types : 0;
}

cu_mem_pool pool_standard(cu_device device)
{
	return &pools[device];
}

static cu_device pool_device(cu_mem_pool pool)
{
	return pool->made ? pool->device : (cu_device)(pool - pools);
}

bool pool_reaches(const struct region *region, cu_device device)
{
	return region->device == device || !region->pool || region->pool->seen[device];
}

/* Under the lock. */
static bool pool_good(cu_mem_pool pool)
{
	cu_mem_pool made = pools_made;

	if (pool >= pools && pool < pools + state.device_count)
		return true;
	while (made && made != pool)
		made = made->next;
	return made && pool;
}

cu_device pool_place(cu_mem_pool pool)
{
	return pool_good(pool) ? pool_device(pool) : -1;
}

static uint64_t pool_pieces(uint64_t size)
{
	return (size + POOL_PIECE - 1) / POOL_PIECE * POOL_PIECE;
}

static uint64_t pool_most(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

/* Under the lock, like the next four functions. */
void pool_took(cu_mem_pool pool, uint64_t size)
{
	pool->live += size;
	pool->used += size;
	pool->used_high = pool_most(pool->used_high, pool->used);
	pool->reserved = pool_most(pool->reserved, pool_pieces(pool->live));
	pool->reserved_high = pool_most(pool->reserved_high, pool->reserved);
}

void pool_gave(const struct region *region)
{
	region->pool->live -= region->size;
	region->pool->used -= region->size;
	region->pool->unsynced += region->size;
}

/* Measured: memory freed by cuMemFree stays in the pool's `used` for good. */
void pool_lost(const struct region *region)
{
	region->pool->live -= region->size;
}

static void pool_keep(cu_mem_pool pool, uint64_t least)
{
	uint64_t keep = pool_most(pool_pieces(pool->live + pool->unsynced), least);

	if (pool->reserved > keep)
		pool->reserved = keep;
}

static void pool_sync(cu_mem_pool pool)
{
	pool->unsynced = pool_held_up(pool);
	pool_keep(pool, pool->threshold / POOL_PIECE * POOL_PIECE);
}

void pool_synced(void)
{
	STATE_LOCKED;
	wait_look();
	for (int i = 0; i < state.device_count; i++)
		pool_sync(&pools[i]);
	for (cu_mem_pool pool = pools_made; pool; pool = pool->next)
		pool_sync(pool);
}

CALL(cuDeviceGetDefaultMemPool, NEED_INIT, (cu_mem_pool * pool, cu_device device), (pool, device))
{
	if (!pool)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	*pool = &pools[device];
	return CU_OK;
}

cu_result cuDeviceGetMemPool(cu_mem_pool *pool, cu_device device)
{
	ANSWER(cuDeviceGetMemPool, NEED_INIT, cuDeviceGetDefaultMemPool_answer(pool, device));
}

CALL(cuMemPoolCreate, NEED_INIT, (cu_mem_pool * pool, const cu_pool_props *props), (pool, props))
{
	if (!pool || !props || (int)props->allocType != CU_ALLOCATION_PINNED ||
	    ((int)props->handleTypes & ~CU_HANDLE_POSIX_FD) ||
	    (int)props->location.type != CU_LOCATION_DEVICE)
		return CU_INVALID_VALUE;
	if (!state_device_good(props->location.id))
		return CU_INVALID_DEVICE;
	cu_mem_pool made = calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	made->made = true;
	made->device = props->location.id;
	made->handle_types = (int)props->handleTypes;
	STATE_LOCKED;
	LL_PREPEND(pools_made, made);
	*pool = made;
	return CU_OK;
}

/* Never free the pool: regions allocated from it point to it. `pools_ended` keeps it reachable for
 * leak checkers. */
CALL(cuMemPoolDestroy, NEED_INIT, (cu_mem_pool pool), (pool))
{
	STATE_LOCKED;
	if (!pool_good(pool) || !pool->made)
		return CU_INVALID_VALUE;
	LL_DELETE(pools_made, pool);
	LL_PREPEND(pools_ended, pool);
	return CU_OK;
}

static uint64_t *pool_number(cu_mem_pool pool, int attribute)
{
	switch (attribute) {
	case CU_POOL_THRESHOLD:
		return &pool->threshold;
	case CU_POOL_RESERVED:
		return &pool->reserved;
	case CU_POOL_RESERVED_HIGH:
		return &pool->reserved_high;
	case CU_POOL_USED:
		return &pool->used;
	case CU_POOL_USED_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

CALL(cuMemPoolGetAttribute, NEED_INIT, (cu_mem_pool pool, cu_pool_attribute attribute, void *value),
     (pool, attribute, value))
{
	STATE_LOCKED;
	if (!pool_good(pool) || !value)
		return CU_INVALID_VALUE;
	if ((int)attribute >= POOL_REUSE_FIRST && (int)attribute <= POOL_REUSE_LAST) {
		int reuses = !pool->reuse_not[(int)attribute];
		memcpy(value, &reuses, sizeof(reuses));
		return CU_OK;
	}
	const uint64_t *number = pool_number(pool, (int)attribute);
	if (!number)
		return CU_INVALID_VALUE;
	memcpy(value, number, sizeof(*number));
	return CU_OK;
}

/* A high-water mark can only be set to 0. It then becomes the current value. */
CALL(cuMemPoolSetAttribute, NEED_INIT, (cu_mem_pool pool, cu_pool_attribute attribute, void *value),
     (pool, attribute, value))
{
	uint64_t number = 0;
	int reuses;

	STATE_LOCKED;
	if (!pool_good(pool) || !value)
		return CU_INVALID_VALUE;
	if ((int)attribute >= POOL_REUSE_FIRST && (int)attribute <= POOL_REUSE_LAST) {
		memcpy(&reuses, value, sizeof(reuses));
		pool->reuse_not[(int)attribute] = !reuses;
		return CU_OK;
	}
	if ((int)attribute != CU_POOL_THRESHOLD && (int)attribute != CU_POOL_RESERVED_HIGH &&
	    (int)attribute != CU_POOL_USED_HIGH)
		return CU_INVALID_VALUE;
	memcpy(&number, value, sizeof(number));
	if ((int)attribute == CU_POOL_THRESHOLD)
		pool->threshold = number;
	else if (number)
		return CU_INVALID_VALUE;
	else if ((int)attribute == CU_POOL_RESERVED_HIGH)
		pool->reserved_high = pool->reserved;
	else
		pool->used_high = pool->used;
	return CU_OK;
}

/* With less than `keep` bytes reserved it does nothing (CUDA Driver API, cuMemPoolTrimTo). */
CALL(cuMemPoolTrimTo, NEED_INIT, (cu_mem_pool pool, size_t keep), (pool, keep))
{
	STATE_LOCKED;
	if (!pool_good(pool))
		return CU_INVALID_VALUE;
	if (keep < pool->reserved)
		pool_keep(pool, pool_pieces(keep));
	return CU_OK;
}

CALL(cuMemPoolGetAccess, NEED_INIT,
     (cu_access_flags * flags, cu_mem_pool pool, cu_mem_location *location),
     (flags, pool, location))
{
	STATE_LOCKED;
	if (!flags || !location || !pool_good(pool))
		return CU_INVALID_VALUE;
	*flags = (cu_access_flags)0;
	if ((int)location->type != CU_LOCATION_DEVICE)
		return CU_OK;
	if (!state_device_good(location->id))
		return CU_INVALID_VALUE;
	if (location->id == pool_device(pool) || pool->seen[location->id])
		*flags = (cu_access_flags)CU_ACCESS_READ_WRITE;
	return CU_OK;
}

/* Access is read-write or none, and the pool's own device can't lose it. A change also applies to
 * memory that is already allocated. */
static cu_result pool_access_good(cu_mem_pool pool, const cu_mem_access *access)
{
	int flags = (int)access->flags, device = access->location.id;

	if ((int)access->location.type != CU_LOCATION_DEVICE || !state_device_good(device))
		return CU_INVALID_DEVICE;
	if (flags != 0 && flags != CU_ACCESS_READ_WRITE)
		return CU_NOT_SUPPORTED;
	if (device == pool_device(pool))
		return flags ? CU_OK : CU_INVALID_DEVICE;
	return state_reaches(device, state.physical[pool_device(pool)]) ? CU_OK : CU_INVALID_DEVICE;
}

CALL(cuMemPoolSetAccess, NEED_INIT, (cu_mem_pool pool, const cu_mem_access *access, size_t count),
     (pool, access, count))
{
	STATE_LOCKED;
	if (!access || !count || !pool_good(pool))
		return CU_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		cu_result result = pool_access_good(pool, &access[i]);

		if (result != CU_OK)
			return result;
	}
	for (size_t i = 0; i < count; i++)
		pool->seen[access[i].location.id] = (int)access[i].flags != 0;
	return CU_OK;
}
