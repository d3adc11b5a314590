/* SPDX-License-Identifier: MIT */
/* A CPU release follows pending stream releases, also those that another thread queues at the
 * same time. */
#include "unit.h"

#include "api/api_order.h"
#include "filled.h"

#define FRAMES 6
#define A_WHILE_US 50000

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;
static struct ordering *ordering;
static _Atomic uint64_t *released;

static void *release_it(void *sequence)
{
	OK(gpushare_release_host(buffer, (uint64_t)(uintptr_t)sequence));
	return NULL;
}

/* The thread has read the last queued release and waits for the turn, which this one holds. */
static pthread_t releases_late(uint64_t sequence)
{
	struct turn *turn = &ordering->releasing.turn;
	pthread_t thread;

	CHECK(turn_take(turn, 0));
	CHECK(!pthread_create(&thread, NULL, release_it, (void *)(uintptr_t)sequence));
	while (atomic_load(&turn->word) == 1)
		usleep(1000);
	return thread;
}

/* Plays a thread with the turn that queues a stream's release up to `sequence`. */
static void a_stream_is_given(uint64_t sequence)
{
	atomic_store(&ordering->releasing.last, sequence);
	turn_give(&ordering->releasing.turn);
}

static void begin(void)
{
	alarm(60);
	part_driver();
	session = part_session();
	buffer = part_filled(session, "x", PART_SIZE, 1);
	OK(gpushare_join(buffer, NULL));
	for (int i = 0; i < FRAMES; i++)
		OK(gpushare_publish_host(buffer, NULL));
	ordering = atomic_load(&buffer->ordering);
	released = &ordering->page->slot[atomic_load(&ordering->slot) - 1].released;
}

static void less_is_waited_for(void)
{
	pthread_t thread;

	begin();
	thread = releases_late(4);
	a_stream_is_given(2);
	usleep(A_WHILE_US);
	CHECK(atomic_load(released) == 0);
	atomic_store(released, 2); /* the stream's write */
	CHECK(!pthread_join(thread, NULL));
	CHECK(atomic_load(released) == 4);
	CHECK(atomic_load(&ordering->releasing.last) == 4);
	OK(gpushare_close(session));
}

static void as_much_releases_it(void)
{
	pthread_t thread;

	begin();
	thread = releases_late(4);
	a_stream_is_given(5);
	CHECK(!pthread_join(thread, NULL));
	CHECK(atomic_load(released) == 0);
	atomic_store(released, 5);
	OK(gpushare_release_host(buffer, 6));
	CHECK(atomic_load(released) == 6);
	OK(gpushare_close(session));
}

/* The CPU has already released more than the stream's release. */
static void a_stream_takes_nothing_back(void)
{
	const struct driver *driver = part_driver();
	cu_stream stream;

	begin();
	stream = part_stream();
	OK(gpushare_release_host(buffer, 5));
	OK(gpushare_reclaim_host(buffer, 4, 0));
	OK(gpushare_release(buffer, stream, 2));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	CHECK(atomic_load(released) == 5);
	OK(gpushare_reclaim_host(buffer, 4, 0));
	OK(gpushare_release(buffer, stream, 6));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	CHECK(atomic_load(released) == 6);
	OK(gpushare_close(session));
}

/* A captured graph may release at any time, so the slot's final value is unsettled. */
static void say_that_a_graph_releases(void)
{
	struct order_slot *slot;

	begin();
	slot = &ordering->page->slot[atomic_load(&ordering->slot) - 1];
	atomic_store(&ordering->captured, true);
	OK(gpushare_leave(buffer));
	CHECK(atomic_load(&slot->final) == ORDER_UNSETTLED && !order_slot_is_final(slot));
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(less_is_waited_for), SCENE(as_much_releases_it),
	   SCENE(a_stream_takes_nothing_back), SCENE(say_that_a_graph_releases))
