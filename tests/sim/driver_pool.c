/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory. */

#include <utlist.h>

#include "driver_stream.h"

/* Memory whose cuMemFreeAsync is queued. The next look at the list releases it once `until` is
 * over. Memory of cuMemAlloc stays until that look even if its stream was not blocked. */
struct freed {
	struct freed *next;
	uint64_t start;
	uint32_t generation;
	struct wait *until;
	/* Of memory of cuMemAlloc: its stream. If that ends first, the memory is never released. */
	cu_stream plain;
	bool again; /* of memory of cuMemAlloc: a second free was accepted */
};

static struct freed *freed;

static cu_result pool_alloc(cu_deviceptr *pointer, uint64_t size, cu_mem_pool pool,
			    cu_stream stream)
{
	struct memory_want want = {.kind = REGION_ASYNC, .pool = pool};
	int cancelling = state_lock();
	want.device = pool_place(pool);
	if (want.device < 0) {
		state_unlock(&cancelling);
		return CU_INVALID_VALUE;
	}
	cu_stream found = stream_find(stream);
	struct capture *capture = found ? found->capture : NULL;
	cu_result result = !found    ? CU_INVALID_HANDLE
			   : capture ? capture_alloc(capture, pointer, size)
				     : stream_use(found);
	state_unlock(&cancelling);
	if (result == CU_OK && !capture)
		result = capture_permits();
	return result != CU_OK || capture ? result : memory_take(pointer, size, &want);
}

static struct freed *pool_freed(const struct region *region)
{
	struct freed *one = freed;

	while (one && (one->start != region->start || one->generation != region->generation))
		one = one->next;
	return one;
}

bool pool_has_freed(const struct region *region)
{
	return region->kind == REGION_ASYNC && pool_freed(region);
}

/* NULL: the memory was released meanwhile, with its context or by cuMemFree. */
static struct region *pool_region(const struct freed *one)
{
	struct region *region = region_exactly(one->start);

	return region && region->generation == one->generation ? region : NULL;
}

static void pool_forget(struct freed *one)
{
	LL_DELETE(freed, one);
	wait_drop(one->until);
	free(one);
}

/* Release all memory whose free is due, except memory of cuMemAlloc that was freed twice. Return
 * true if such memory is due in `stream`; NULL: in any stream. */
static bool pool_end_due(cu_stream stream)
{
	struct freed *one, *next;
	bool twice = false;

	wait_look();
	LL_FOREACH_SAFE (freed, one, next) {
		struct region *region = pool_region(one);

		if (!wait_over(one->until))
			continue;
		if (one->again && region) {
			twice = twice || !stream || one->plain == stream;
			continue;
		}
		if (region)
			memory_release(region);
		pool_forget(one);
	}
	return twice;
}

void pool_look(void)
{
	pool_end_due(NULL);
}

static bool pool_has_twice(cu_stream stream)
{
	STATE_LOCKED;
	return pool_end_due(stream);
}

uint64_t pool_held_up(cu_mem_pool pool)
{
	uint64_t size = 0;

	for (const struct freed *one = freed; one; one = one->next) {
		const struct region *region = pool_region(one);

		if (region && region->pool == pool && !wait_over(one->until))
			size += region->size;
	}
	return size;
}

void pool_synchronize(cu_stream stream)
{
	while (pool_has_twice(stream))
		usleep(1000);
	pool_synced();
}

void pool_keep_of(cu_stream stream)
{
	struct freed *one, *next;

	LL_FOREACH_SAFE (freed, one, next) {
		if (one->plain == stream)
			pool_forget(one);
	}
}

static cu_result pool_free_behind(const struct region *region, struct wait *until, cu_stream stream)
{
	struct freed *made = malloc(sizeof(*made));

	if (!made) {
		wait_drop(until);
		return CU_OUT_OF_MEMORY;
	}
	*made = (struct freed){freed,
			       region->start,
			       region->generation,
			       until,
			       region->kind == REGION_DEVICE ? stream : NULL,
			       false};
	freed = made;
	return CU_OK;
}

/* Memory of cuMemAlloc is accepted too. A later call releases it, unless its stream ends first. It
 * can be freed twice; then a synchronization of that stream or of the context never returns. */
static cu_result pool_free(cu_deviceptr pointer, cu_stream stream)
{
	if (!pointer)
		return CU_OK;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	if (found->capture)
		return capture_free(found->capture, pointer);
	if (stream_use(found) != CU_OK)
		return (cu_result)STREAM_CAPTURE_IMPLICIT;
	struct region *region = region_exactly(pointer);
	if (region && region->kind == REGION_MANAGED)
		return CU_NOT_SUPPORTED;
	if (!region || (region->kind != REGION_ASYNC && region->kind != REGION_DEVICE))
		return CU_INVALID_VALUE;
	struct freed *before = pool_freed(region);
	if (before) {
		before->again = before->plain;
		return before->plain ? CU_OK : CU_INVALID_VALUE;
	}
	cu_result result = pool_free_behind(region, stream_tail(found), found);
	if (result != CU_OK || region->kind == REGION_DEVICE)
		return result;
	pool_gave(region);
	pool_look();
	return CU_OK;
}

/* The plain calls and their _ptsz twins. The log and the faults distinguish them. For a twin,
 * stream 0 is the calling thread's default stream. */
#define POOL_CALLS(name, stream) \
	cu_result cuMemAllocAsync##name(cu_deviceptr *pointer, size_t size, cu_stream stream_) \
	{ \
		ANSWER_LOGGED(cuMemAllocAsync##name, NEED_CONTEXT, \
			      pool_alloc(pointer, size, pool_standard(context_device()), stream), \
			      answer_ == CU_OK ? *pointer : 0, size); \
	} \
\
	cu_result cuMemAllocFromPoolAsync##name(cu_deviceptr *pointer, size_t size, \
						cu_mem_pool pool, cu_stream stream_) \
	{ \
		ANSWER_LOGGED(cuMemAllocFromPoolAsync##name, NEED_CONTEXT, \
			      pool_alloc(pointer, size, pool, stream), \
			      answer_ == CU_OK ? *pointer : 0, size); \
	} \
\
	cu_result cuMemFreeAsync##name(cu_deviceptr pointer, cu_stream stream_) \
	{ \
		ANSWER_LOGGED(cuMemFreeAsync##name, NEED_CONTEXT, pool_free(pointer, stream), \
			      pointer, 0); \
	}
POOL_CALLS(, stream_)
POOL_CALLS(_ptsz, stream_ ? stream_ : STREAM_PER_THREAD)
