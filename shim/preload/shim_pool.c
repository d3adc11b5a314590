/* SPDX-License-Identifier: MIT */
#include "shim_pool.h"

#include <stdatomic.h>
#include <string.h>

#include "shim_async.h"
#include "shim_live.h"
#include "base/shim_lock.h"
#include "shim_lookup.h"
#include "shim_process.h"
#include "cuda/shim_quiet.h"
#include "shim_site.h"

#define POOLS_MAX 64
#define PIECE (UINT64_C(32) << 20) /* a pool reserves and returns whole pieces (contract_pool) */

struct pool {
	cu_mem_pool handle; /* NULL: a free slot */
	uint64_t reserved;  /* at the last snapshot, as if our memory were the pool's */
	uint64_t reserved_high, used_high; /* high-water marks, including our memory */
};

static struct {
	pthread_mutex_t lock; /* never held over a driver call */
	atomic_uint count;
	struct pool known[POOLS_MAX];
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A snapshot of a pool. */
struct look {
	uint64_t used, used_high, reserved, reserved_high, threshold; /* from the driver */
	uint64_t ours;	 /* our memory that is not freed */
	uint64_t behind; /* our memory that is freed, but whose stream has not reached the free */
};

static uint64_t most(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static uint64_t pieces(uint64_t size)
{
	return (size + PIECE - 1) / PIECE * PIECE;
}

bool pools_any(void)
{
	return atomic_load_explicit(&pools.count, memory_order_acquire) != 0;
}

/* Under the lock. NULL: the pool is not known. find(NULL) returns a free slot; NULL: there is
 * none. */
static struct pool *find(cu_mem_pool handle)
{
	for (int i = 0; i < POOLS_MAX; i++)
		if (pools.known[i].handle == handle)
			return &pools.known[i];
	return NULL;
}

/* Add the pool, unless it is known already or no slot is free. */
static void enter(cu_mem_pool handle)
{
	struct pool *made;

	if (!lock_take(&pools.lock))
		return;
	made = find(handle) ? NULL : find(NULL);
	if (made) {
		*made = (struct pool){.handle = handle};
		atomic_fetch_add_explicit(&pools.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&pools.lock);
}

static bool ask(const struct driver *driver, cu_mem_pool pool, int attribute, uint64_t *out)
{
	return driver->cuMemPoolGetAttribute(pool, (cu_pool_attribute)attribute, out) == CU_OK;
}

static bool look(const struct driver *driver, cu_mem_pool pool, struct look *out)
{
	if (!driver || !ask(driver, pool, CU_POOL_USED, &out->used) ||
	    !ask(driver, pool, CU_POOL_USED_HIGH, &out->used_high) ||
	    !ask(driver, pool, CU_POOL_RESERVED, &out->reserved) ||
	    !ask(driver, pool, CU_POOL_RESERVED_HIGH, &out->reserved_high) ||
	    !ask(driver, pool, CU_POOL_THRESHOLD, &out->threshold))
		return false;
	async_drain(0); /* one pass, no wait */
	out->behind = async_pooled(pool);
	out->ours = live_pooled(pool);
	return true;
}

/*
 * Under the lock: bring `pool` up to date. The driver's pool grows with its use. At a
 * synchronization after a free, the driver releases what exceeds a threshold. The shim can't see
 * synchronizations, so it counts its own memory as released once the stream has passed the free.
 * `keep`: bytes that stay reserved in any case.
 */
static void settle(struct pool *pool, const struct look *look, uint64_t keep)
{
	uint64_t used = look->used + look->ours;
	uint64_t least = most(pieces(used + look->behind), keep);

	pool->reserved = most(pool->reserved, pieces(used));
	pool->reserved_high = most(pool->reserved_high, pool->reserved);
	pool->used_high = most(pool->used_high, used);
	if (pool->reserved > least)
		pool->reserved = least;
}

static uint64_t answer(const struct pool *pool, const struct look *look, int attribute)
{
	switch (attribute) {
	case CU_POOL_USED:
		return look->used + look->ours;
	case CU_POOL_USED_HIGH:
		return most(pool->used_high, look->used_high);
	case CU_POOL_RESERVED:
		return most(pool->reserved, look->reserved);
	default:
		return most(pool->reserved_high, look->reserved_high);
	}
}

static uint64_t kept_by_threshold(const struct look *look)
{
	return look->threshold / PIECE * PIECE;
}

static bool is_known(cu_mem_pool handle)
{
	bool known;

	if (!process_is_mine() || !lock_take(&pools.lock))
		return false;
	known = find(handle);
	pthread_mutex_unlock(&pools.lock);
	return known;
}

/* Take a snapshot of the pool, then the lock. NULL: no such pool, or a failure; then no lock is
 * held. */
static struct pool *hold(cu_mem_pool handle, struct look *out_now)
{
	struct pool *found;

	if (!handle || !is_known(handle) || !look(lookup_driver(), handle, out_now) ||
	    !lock_take(&pools.lock))
		return NULL;
	found = find(handle);
	if (!found)
		pthread_mutex_unlock(&pools.lock);
	return found;
}

void pools_grow(cu_mem_pool pool)
{
	_quiet_ struct quiet quiet = quiet_enter();
	struct pool *found;
	struct look now;

	if (!pool)
		return;
	enter(pool);
	found = hold(pool, &now);
	if (!found)
		return;
	settle(found, &now, most(kept_by_threshold(&now), found->reserved));
	pthread_mutex_unlock(&pools.lock);
}

static bool is_statistic(int attribute)
{
	return attribute >= CU_POOL_RESERVED && attribute <= CU_POOL_USED_HIGH;
}

cu_result pools_get(cu_cuMemPoolGetAttribute_call *real, cu_mem_pool pool,
		    cu_pool_attribute attribute, void *value)
{
	cu_result result = real(pool, attribute, value);
	_quiet_ struct quiet quiet = quiet_enter();
	struct pool *found;
	struct look now;
	uint64_t sum;

	found = result == CU_OK && is_statistic((int)attribute) ? hold(pool, &now) : NULL;
	if (!found)
		return result;
	settle(found, &now, kept_by_threshold(&now));
	sum = answer(found, &now, (int)attribute);
	memcpy(value, &sum, sizeof(sum));
	pthread_mutex_unlock(&pools.lock);
	return result;
}

/* The driver takes only 0 for a high-water mark, and resets the mark to the current value. */
cu_result pools_set(cu_cuMemPoolSetAttribute_call *real, cu_mem_pool pool,
		    cu_pool_attribute attribute, void *value)
{
	cu_result result = real(pool, attribute, value);
	_quiet_ struct quiet quiet = quiet_enter();
	struct pool *found;
	struct look now;

	found = result == CU_OK && is_statistic((int)attribute) ? hold(pool, &now) : NULL;
	if (!found)
		return result;
	settle(found, &now, kept_by_threshold(&now));
	if ((int)attribute == CU_POOL_USED_HIGH)
		found->used_high = now.used + now.ours;
	else
		found->reserved_high = found->reserved;
	pthread_mutex_unlock(&pools.lock);
	return result;
}

cu_result pools_trim(cu_cuMemPoolTrimTo_call *real, cu_mem_pool pool, size_t keep)
{
	cu_result result = real(pool, keep);
	_quiet_ struct quiet quiet = quiet_enter();
	struct pool *found;
	struct look now;

	found = result == CU_OK ? hold(pool, &now) : NULL;
	if (!found)
		return result;
	settle(found, &now, keep > UINT64_MAX - PIECE ? keep : pieces(keep));
	pthread_mutex_unlock(&pools.lock);
	return result;
}

cu_result pools_destroy(cu_cuMemPoolDestroy_call *real, cu_mem_pool pool)
{
	cu_result result = real(pool);
	struct pool *found;

	site_guard();
	if (result != CU_OK || !process_is_mine())
		return result;
	live_forget_pool(pool);
	if (!lock_take(&pools.lock))
		return result;
	found = find(pool);
	if (found) {
		found->handle = NULL;
		atomic_fetch_sub_explicit(&pools.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&pools.lock);
	return result;
}
