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
	unsigned int number;
	uint64_t reserved; /* at the last snapshot, as if our memory were the pool's */
	uint64_t reserved_high, used_high; /* high-water marks, including our memory */
};

static struct {
	pthread_mutex_t lock; /* never held over a driver call */
	atomic_uint count;
	unsigned int numbers;
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

/* Under the lock. */
static struct pool *find(cu_mem_pool handle, unsigned int number)
{
	for (int i = 0; i < POOLS_MAX; i++)
		if (pools.known[i].handle &&
		    (number ? pools.known[i].number == number : pools.known[i].handle == handle))
			return &pools.known[i];
	return NULL;
}

static struct pool *enter(cu_mem_pool handle)
{
	for (int i = 0; i < POOLS_MAX; i++) {
		struct pool *made = &pools.known[i];

		if (made->handle)
			continue;
		*made = (struct pool){.handle = handle, .number = ++pools.numbers};
		atomic_fetch_add_explicit(&pools.count, 1, memory_order_release);
		return made;
	}
	return NULL;
}

unsigned int pools_number(cu_mem_pool pool)
{
	unsigned int number = 0;
	struct pool *found;

	if (!pool || !lock_take(&pools.lock))
		return 0;
	found = find(pool, 0);
	if (!found)
		found = enter(pool);
	if (found)
		number = found->number;
	pthread_mutex_unlock(&pools.lock);
	return number;
}

cu_mem_pool pools_handle(unsigned int number)
{
	cu_mem_pool handle = NULL;
	struct pool *found;

	if (!number || !lock_take(&pools.lock))
		return NULL;
	found = find(NULL, number);
	if (found)
		handle = found->handle;
	pthread_mutex_unlock(&pools.lock);
	return handle;
}

/* The pool's number; 0: it has none. */
static unsigned int known(cu_mem_pool pool)
{
	unsigned int number = 0;
	struct pool *found;

	if (!process_is_mine() || !lock_take(&pools.lock))
		return 0;
	found = find(pool, 0);
	if (found)
		number = found->number;
	pthread_mutex_unlock(&pools.lock);
	return number;
}

static bool ask(const struct driver *driver, cu_mem_pool pool, int attribute, uint64_t *out)
{
	return driver->cuMemPoolGetAttribute(pool, (cu_pool_attribute)attribute, out) == CU_OK;
}

static bool look(const struct driver *driver, cu_mem_pool pool, unsigned int number,
		 struct look *out)
{
	if (!driver || !ask(driver, pool, CU_POOL_USED, &out->used) ||
	    !ask(driver, pool, CU_POOL_USED_HIGH, &out->used_high) ||
	    !ask(driver, pool, CU_POOL_RESERVED, &out->reserved) ||
	    !ask(driver, pool, CU_POOL_RESERVED_HIGH, &out->reserved_high) ||
	    !ask(driver, pool, CU_POOL_THRESHOLD, &out->threshold))
		return false;
	async_drain(0); /* one pass, no wait */
	out->behind = async_pooled(number);
	out->ours = live_pooled(number);
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

/* Take a snapshot of the pool, then the lock. NULL: no such pool, or a failure; then no lock is
 * held. */
static struct pool *hold(cu_mem_pool handle, struct look *out_now)
{
	unsigned int number = handle ? known(handle) : 0;
	struct pool *found;

	if (!number || !look(lookup_driver(), handle, number, out_now) || !lock_take(&pools.lock))
		return NULL;
	found = find(NULL, number);
	if (!found)
		pthread_mutex_unlock(&pools.lock);
	return found;
}

void pools_grow(unsigned int number)
{
	_quiet_ struct quiet quiet = quiet_enter();
	struct look now;
	struct pool *found = hold(pools_handle(number), &now);

	(void)quiet;
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

	(void)quiet;
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

	(void)quiet;
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

	(void)quiet;
	found = result == CU_OK ? hold(pool, &now) : NULL;
	if (!found)
		return result;
	settle(found, &now, keep > UINT64_MAX - PIECE ? keep : pieces(keep));
	pthread_mutex_unlock(&pools.lock);
	return result;
}

/* Remove the pool first: once `real` has destroyed it, another pool may get the same handle. */
cu_result pools_destroy(cu_cuMemPoolDestroy_call *real, cu_mem_pool pool)
{
	struct pool taken = {.handle = NULL}, *found;
	cu_result result;

	site_guard();
	if (process_is_mine() && lock_take(&pools.lock)) {
		found = find(pool, 0);
		if (found) {
			taken = *found;
			found->handle = NULL;
			atomic_fetch_sub_explicit(&pools.count, 1, memory_order_release);
		}
		pthread_mutex_unlock(&pools.lock);
	}
	result = real(pool);
	if (taken.handle && result != CU_OK && lock_take(&pools.lock)) {
		found = enter(pool);
		if (found)
			*found = taken;
		pthread_mutex_unlock(&pools.lock);
	}
	return result;
}
