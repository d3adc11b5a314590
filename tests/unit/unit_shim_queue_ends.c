/* SPDX-License-Identifier: MIT */
/* Frees in stream order of memory that nobody has attached, and the end of a context. */
#include "unit.h"

#include "queue_played.h"

static void defer_unnamed(uint64_t generation)
{
	struct live entry = {.kind = LIVE_OWN,
			     .generation = generation,
			     .pointer = generation << 20,
			     .context = context(1)};

	assert_int_equal(async_defer(&played, &entry, STREAM), CU_OK);
}

/* Memory without a name is left out of a resync. It is freed when its stream's work is done, or
 * after the end of the stream's context. async_ask() looks for it by its pointer. */
static void given_back_without_a_name(void **state)
{
	struct pending *taken;

	defer_unnamed(1);
	defer_unnamed(2);
	defer_unnamed(3);
	async_ask((uint64_t)2 << 20);
	assert_string_equal(done, "");
	to_query = CU_OK;
	async_ask((uint64_t)9 << 20);
	async_ask((uint64_t)2 << 20);
	assert_string_equal(done, "pass2 ");
	async_sweep(true);
	assert_string_equal(done, "pass2 pass1 pass3 ");
	to_query = CU_NOT_READY;
	defer_unnamed(3);
	to_query = CU_OK;
	stuck_lock = true;
	async_ask((uint64_t)3 << 20);
	stuck_lock = false;
	taken = async_take_of(context(1)); /* the context ends, and its memory with it */
	events--;
	async_end(&played, context(1), taken);
	assert_string_equal(done, "pass2 pass1 pass3 ");
	its_context = context(3); /* the stream's context ends, the memory stays */
	defer_unnamed(4);
	taken = async_take_of(context(3));
	events--;
	async_end(&played, context(3), taken);
	assert_string_equal(done, "pass2 pass1 pass3 pass4 ");
}

/* The context of the stream ends, or that of the memory, or the end fails and the entry returns. */
static void a_context_ends(void **state)
{
	struct pending *taken;

	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_int_equal(defer(2, LIVE_VMM), CU_OK);
	assert_int_equal(defer(3, LIVE_IPC), CU_OK);
	its_context = context(3);
	assert_int_equal(defer(4, LIVE_IPC),
			 CU_OK); /* its memory is context 1's, its stream is not */
	assert_null(async_take_of(context(7)));
	queue.first->busy = true;
	taken = async_take_of(context(3));
	assert_ptr_equal(taken->entry.pointer, (uint64_t)4 << 20);
	async_return(taken);
	assert_int_equal(atomic_load(&queue.count), 4);
	taken = async_take_of(context(1));
	assert_int_equal(atomic_load(&queue.count), 1); /* another thread works on that one */
	queue.first->busy = false;
	events -= 2; /* the end of context 1 has destroyed these events */
	async_end(&played, context(1), taken);
	assert_string_equal(done, "detach4 detach3 close2 detach2 ");
	assert_int_equal(events, 1);
	*done = '\0';
	taken = async_take_of(context(1));
	events--;
	async_end(&played, context(1), taken);
	assert_string_equal(done, "withdraw1 ");
	assert_null(async_take_of(context(1)));
}

/* A detach that was sent is not repeated. Without a driver no driver call follows. */
static void a_context_ends_behind_its_stream(void **state)
{
	struct pending *taken;

	assert_int_equal(defer(1, LIVE_IPC), CU_OK);
	to_query = CU_OK;
	async_sweep(true);
	assert_string_equal(done, "detach1 ");
	taken = async_take_of(context(1));
	events--;
	async_end(&played, context(1), taken);
	assert_string_equal(done, "detach1 ");
	its_context = context(3);
	assert_int_equal(defer(2, LIVE_IPC), CU_OK);
	taken = async_take_of(context(1));
	events--;
	async_end(NULL, context(1), taken);
	assert_string_equal(done, "detach1 detach2 ");
}

UNIT_MAIN(with_queue(given_back_without_a_name), with_queue(a_context_ends),
	  with_queue(a_context_ends_behind_its_stream))
