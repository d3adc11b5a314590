/* SPDX-License-Identifier: MIT */
/* Named memory that is freed while others have it attached, with a driver that lacks calls or
 * fails. */
#include "unit.h"

#include "preloaded.h"
#include "raw.h"
#include "preload/shim_line.h"
#include "preload/shim_linger.h"
#include "stopped.h"

#define SIZE BLOCK

static struct driver *table;
static struct driver whole;
static cu_deviceptr pointer;

/* Attach x. Detach it when the other process says so. */
static void attach_and_leave(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_attach_options options = {.wait_ms = 10000};
	struct gpushare_buffer *buffer;

	OK(gpushare_attach(session, "x", &options, &buffer));
	say();
	hear();
	OK(gpushare_detach(buffer));
	say();
	hear();
	OK(gpushare_close(session));
}

static void begin(const char *limit)
{
	setenv("GPUSHARE_DEFERRED_FREE", limit, 1);
	preloaded("x,x", NULL);
	table = preloaded_table();
	whole = *table;
	CHECK(preloaded_alloc(&pointer, SIZE) == CU_OK);
	hear();
}

static void leave(void)
{
	say();
	hear();
}

static unsigned int deferred(void)
{
	static struct gpushare_session *session;
	struct gpushare_registry_info info;

	if (!session)
		session = part_session();
	OK(gpushare_stat_registry(session, &info));
	return (unsigned int)info.deferred;
}

/* Repeat a call that may give the memory back. It does so only after a look at the registry,
 * which a pause may delay. */
static void until_given_back(void (*again)(void))
{
	for (int tries = 0; tries < 200 && linger_any(); tries++) {
		poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
		again();
	}
	/* the shim told the registry without waiting for its answer */
	for (int tries = 0; tries < 200 && deferred(); tries++)
		poll(NULL, 0, DEFERRED_PAUSE_MS + 1);
}

static cu_result free_it(void)
{
	cu_result result;

	errno = 77;
	result = preloaded_free(pointer);
	CHECK(errno == 77);
	return result;
}

/* Return true if the memory is freed, for the driver too after a synchronization. */
static bool is_gone(void)
{
	return !linger_any() && part_driver()->cuCtxSynchronize() == CU_OK &&
	       part_driver()->cuMemFree_v2(pointer) == CU_INVALID_VALUE;
}

static void free_nothing(void)
{
	CHECK(preloaded_free(12345) != CU_OK);
}

static void alloc_and_free(void)
{
	cu_deviceptr other;

	CHECK(preloaded_alloc(&other, SIZE) == CU_OK && preloaded_free(other) == CU_OK);
}

static void sweep(void)
{
	linger_sweep(false);
}

static void held_and_given_back(void)
{
	struct gpushare_info info;

	begin("1Gi");
	CHECK(free_it() == CU_OK && deferred() == 1 && !preloaded_finds("x", &info));
	CHECK(linger_holds(pointer, 1) && preloaded_works(pointer, SIZE));
	CHECK(free_it() == CU_INVALID_VALUE);
	leave();
	until_given_back(free_nothing);
	CHECK(deferred() == 0 && is_gone());
	say();
}

static cu_result no_alloc(cu_deviceptr *out_pointer, size_t size)
{
	return CU_OUT_OF_MEMORY;
}

static cu_result broken_alloc(cu_deviceptr *out_pointer, size_t size)
{
	return CU_ILLEGAL_ADDRESS;
}

static cu_result no_push(cu_context context)
{
	return CU_UNKNOWN;
}

/* If the shim can't wait in cuMemFree's place, it calls cuMemFree. */
static void no_room_to_wait(void)
{
	begin("1Gi");
	table->cuMemAlloc_v2 = no_alloc;
	CHECK(free_it() == CU_OK);
	*table = whole;
	CHECK(deferred() == 0 && is_gone());
	leave();
	say();
}

static void no_context_to_wait_in(void)
{
	begin("1Gi");
	table->cuCtxPushCurrent_v2 = no_push;
	CHECK(free_it() == CU_OK);
	*table = whole;
	CHECK(deferred() == 0 && is_gone());
	leave();
	say();
}

/* A failure of the shim's own allocation doesn't reach the program. */
static void freed_all_the_same(void)
{
	begin("1Gi");
	table->cuMemAlloc_v2 = broken_alloc;
	CHECK(free_it() == CU_OK);
	*table = whole;
	CHECK(deferred() == 0 && is_gone());
	leave();
	say();
}

static cu_result broken_free(cu_deviceptr freed)
{
	return CU_ILLEGAL_ADDRESS;
}

/* If the free fails, the memory stays the program's and keeps its name. */
static void refused(void)
{
	struct gpushare_info info;

	begin("1Gi");
	table->cuMemAlloc_v2 = broken_alloc;
	CHECK(buffers_free(broken_free, pointer) == CU_ILLEGAL_ADDRESS);
	*table = whole;
	CHECK(deferred() == 0 && !linger_any() && preloaded_finds("x", &info));
	CHECK(preloaded_works(pointer, SIZE) && free_it() == CU_OK && is_gone());
	leave();
	say();
}

static cu_result no_free_async(cu_deviceptr freed, cu_stream stream)
{
	return CU_NOT_SUPPORTED;
}

/* The program's next allocation gives the memory back, without the calls that don't wait. */
static void by_the_plain_call(void)
{
	begin("1Gi");
	CHECK(free_it() == CU_OK && deferred() == 1);
	leave();
	table->cuMemFreeAsync = no_free_async;
	until_given_back(alloc_and_free);
	*table = whole;
	CHECK(deferred() == 0 && is_gone());
	say();
}

static void without_streams(void)
{
	begin("1Gi");
	CHECK(free_it() == CU_OK && deferred() == 1);
	leave();
	table->cuStreamCreate = NULL;
	until_given_back(alloc_and_free);
	*table = whole;
	CHECK(deferred() == 0 && is_gone());
	say();
}

/* If a context can't be made current any more, its memory has ended with it. */
static void context_lost(void)
{
	begin("1Gi");
	CHECK(free_it() == CU_OK);
	leave();
	table->cuCtxPushCurrent_v2 = no_push;
	until_given_back(sweep);
	*table = whole;
	CHECK(!linger_any() && deferred() == 0);
	say();
}

static cu_result short_of_memory(cu_deviceptr *out_pointer, size_t size)
{
	return linger_any() ? CU_OUT_OF_MEMORY : part_driver()->cuMemAlloc_v2(out_pointer, size);
}

static void memory_is_short(void)
{
	cu_deviceptr other = 16;

	begin("1Gi");
	CHECK(free_it() == CU_OK && deferred() == 1);
	errno = 77;
	CHECK(buffers_alloc(short_of_memory, (const void *)preloaded, &other, SIZE) == CU_OK);
	CHECK(errno == 77 && deferred() == 0 && is_gone() && !buffers_make_room());
	CHECK(preloaded_free(other) == CU_OK);
	leave();
	say();
}

/* The registry is stopped during the free. It may hear of that later, and others may have the
 * memory attached, so the shim holds it. */
static void unanswered(void)
{
	cu_result freed, more;
	cu_deviceptr other;
	int registry;
	bool held;

	raw_set_limit(300);
	begin("1Gi");
	registry = stage_registry();
	CHECK(stopped(registry));
	freed = free_it();
	more = preloaded_alloc(&other, SIZE); /* gets no name, as the registry doesn't answer */
	held = linger_any() && preloaded_works(pointer, SIZE);
	CHECK(!kill(registry, SIGCONT)); /* before a check can fail: the test's end waits for it */
	CHECK(freed == CU_OK && more == CU_OK && preloaded_free(other) == CU_OK && held);
	for (int tries = 0; tries < 200 && deferred() != 1; tries++) {
		poll(NULL, 0, DEFERRED_PAUSE_MS);
		linger_sweep(false);
	}
	CHECK(deferred() == 1 && linger_any() && preloaded_works(pointer, SIZE));
	leave();
	until_given_back(sweep);
	CHECK(deferred() == 0 && is_gone());
	say();
}

/* The same, during the pause after a descriptor that the registry didn't take. */
static void unanswered_of_a_descriptor(void)
{
	int registry, status;
	cu_result freed;
	char why[256];
	bool held;

	raw_set_limit(300);
	begin("1Gi");
	registry = stage_registry();
	CHECK(stopped(registry));
	status = line_enter(why, sizeof(why));
	if (!status) {
		strcpy(line_ask(gpushare_Request_attach_tag)->verb.attach.name, "w");
		line.client->goes = STDIN_FILENO;
		status = line_call(0, why, sizeof(why));
		line_leave();
	}
	freed = free_it();
	held = linger_any() && preloaded_works(pointer, SIZE);
	CHECK(!kill(registry, SIGCONT));
	CHECK(status == GPUSHARE_E_TIMED_OUT);
	CHECK(freed == CU_OK && held);
	leave();
	say();
}

static void switched_off(void)
{
	begin("0");
	CHECK(free_it() == CU_OK && deferred() == 0 && is_gone());
	leave();
	say();
}

STAGE_MAIN(SCENE(held_and_given_back, attach_and_leave), SCENE(switched_off, attach_and_leave),
	   SCENE(unanswered, attach_and_leave), SCENE(unanswered_of_a_descriptor, attach_and_leave),
	   SCENE(no_room_to_wait, attach_and_leave), SCENE(no_context_to_wait_in, attach_and_leave),
	   SCENE(freed_all_the_same, attach_and_leave), SCENE(refused, attach_and_leave),
	   SCENE(by_the_plain_call, attach_and_leave), SCENE(without_streams, attach_and_leave),
	   SCENE(context_lost, attach_and_leave), SCENE(memory_is_short, attach_and_leave))
