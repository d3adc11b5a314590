/* SPDX-License-Identifier: MIT */
/* Frees in stream order: the queue itself, with a driver that the test plays, also without lock
 * and memory. */
#include "unit.h"

#include "queue_played.h"

static void ends_by_its_kind(void **state)
{
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_int_equal(defer(2, LIVE_VMM), CU_OK);
	assert_int_equal(defer(3, LIVE_IPC), CU_OK);
	async_sweep(true);
	assert_true(!*done && async_holds((uint64_t)2 << 20));
	to_query = CU_OK;
	live_resync.readings += 2;
	async_sweep(true);
	/* memory of the program becomes a deferred free; a handle is closed later, where closing
	 * may wait */
	assert_string_equal(done, "keep1 close2 detach2 detach3 ");
	assert_true(async_any() && !async_waits());
	assert_true(!async_holds((uint64_t)2 << 20) && async_holds((uint64_t)3 << 20));
	async_sweep(true);
	async_close();
	assert_string_equal(done, "keep1 close2 detach2 detach3 close3 ");
	assert_false(async_holds((uint64_t)3 << 20));
}

static int64_t soon(void)
{
	return monotonic_ms() + 20;
}

/* A sweep ends as many as a call of the program has time for. */
static void ends_a_few_at_a_time(void **state)
{
	for (uint64_t i = 1; i <= SWEEP_MAX + 2; i++)
		assert_int_equal(defer(i, LIVE_OWN), CU_OK);
	to_query = CU_OK;
	async_sweep(true);
	assert_int_equal(atomic_load(&queue.waiting), 2);
	assert_true(async_drain(soon()) && !async_drain(soon()));
}

static void drained_no_longer_than_that(void **state)
{
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_true(!async_drain(soon()) && async_waits());
	standing = NULL; /* its driver was unloaded */
	assert_false(async_drain(soon()));
	async_close();
	assert_true(async_waits());
	standing = &played;
	to_query = CU_INVALID_VALUE; /* the event no longer exists, so its work is over */
	assert_true(async_drain(soon()));
	assert_string_equal(done, "keep1 ");
}

static void drained_while_others_free(void **state)
{
	to_query = CU_OK;
	others = 20;
	assert_int_equal(defer(30, LIVE_VMM), CU_OK);
	assert_true(async_drain(0));
	assert_in_range(others, 15, 19); /* the drain's time was up */
	others = 0;
	assert_true(async_drain(soon()));
}

static void an_older_driver(void **state)
{
	void **const needed[] = {(void **)&played.cuEventCreate, (void **)&played.cuEventRecord,
				 (void **)&played.cuEventQuery, (void **)&played.cuEventDestroy_v2};

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		void *whole = *needed[i];

		*needed[i] = NULL;
		assert_int_equal(defer(1, LIVE_OWN), CU_NOT_SUPPORTED);
		*needed[i] = whole;
	}
	/* If the driver doesn't tell the stream's context, the thread's current context counts. */
	its_context = NULL;
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_ptr_equal(queue.first->context, context(2));
	played.cuStreamGetCtx = NULL;
	assert_int_equal(defer(2, LIVE_OWN), CU_OK);
	played.cuCtxGetCurrent = NULL;
	assert_int_equal(defer(3, LIVE_OWN), CU_INVALID_CONTEXT);
	to_query = CU_OK;
	async_sweep(true);
	assert_string_equal(done, "keep1 keep2 ");
}

static void refused(void **state)
{
	to_push = CU_INVALID_CONTEXT;
	assert_int_equal(defer(1, LIVE_OWN), CU_INVALID_CONTEXT);
	to_push = CU_OK;
	to_create = CU_OUT_OF_MEMORY;
	assert_int_equal(defer(1, LIVE_OWN), CU_OUT_OF_MEMORY);
	to_create = CU_OK;
	to_record = CU_UNKNOWN;
	assert_int_equal(defer(1, LIVE_OWN), CU_UNKNOWN);
	assert_false(async_any() || events);
	to_record = CU_OK;
	stuck_after = 0;
	assert_int_equal(defer(1, LIVE_OWN), CU_OUT_OF_MEMORY);
	stuck_after = -1u;
	/* If its context can't be made current, the free stays queued. */
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	to_push = CU_INVALID_CONTEXT;
	to_query = CU_OK;
	async_sweep(true);
	assert_true(async_waits());
	to_push = CU_OK;
	async_sweep(true);
}

static unsigned int attached(uint64_t generation)
{
	gpushare_Hold hold = {.generation = generation};

	async_count(&hold);
	return hold.count;
}

static void told_to_another_registry(void **state)
{
	struct resync told = {.calls = NULL};

	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(defer(i, i == 2 ? LIVE_IPC : LIVE_VMM), CU_OK);
	queue.first->entry.name[0] = '\0';
	queue.first->next->next->entry.generation = 2;
	assert_int_equal(attached(2), 2);
	assert_int_equal(attached(1), 0); /* it has no name */
	assert_true(async_list(&told));
	assert_int_equal(told.told.count, 2);
	assert_true(async_get(told.told.refs[0].key, 2, &(struct live){0}));
	assert_false(async_get(told.told.refs[0].key, 1, &(struct live){0}));
	to_query = CU_OK;
	async_sweep(true);
	assert_true(async_list(&told)); /* the one that is left is detached already */
	assert_int_equal(told.told.count, 2);
	assert_false(async_get(told.told.refs[0].key, 2, &(struct live){0}));
	assert_int_equal(attached(2), 0);
	resync_finish(&told);
	async_close();
}

/* No call returns anything, and no entry is lost. */
static void without_the_lock(void **state)
{
	struct resync told = {.calls = NULL};
	struct pending *taken;

	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_int_equal(defer(2, LIVE_IPC), CU_OK);
	stuck_lock = true;
	assert_int_equal(defer(3, LIVE_OWN), CU_OUT_OF_MEMORY);
	assert_int_equal(events, 2);
	assert_false(async_holds((uint64_t)1 << 20));
	assert_int_equal(attached(2), 0);
	assert_false(async_list(&told) || async_get((uint64_t)1 << 20, 1, &(struct live){0}));
	assert_null(async_take_of(context(1)));
	to_query = CU_OK;
	async_sweep(true);
	assert_string_equal(done, "");
	stuck_lock = false;
	taken = async_take_of(context(1));
	stuck_lock = true;
	async_return(taken); /* without the lock it can't return to the queue */
	assert_false(async_any());
	stuck_lock = false;
	async_return(taken);
	assert_true(async_holds((uint64_t)1 << 20));
	async_sweep(true);
	async_close();
	assert_int_equal(strlen(done), strlen("detach2 keep1 close2 "));
}

UNIT_MAIN(with_queue(ends_by_its_kind), with_queue(ends_a_few_at_a_time),
	  with_queue(drained_no_longer_than_that), with_queue(drained_while_others_free),
	  with_queue(an_older_driver), with_queue(refused), with_queue(told_to_another_registry),
	  with_queue(without_the_lock))
