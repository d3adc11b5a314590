/* SPDX-License-Identifier: MIT */
/* Publishing, joining and leaving from several threads at once. */
#include "unit.h"

#include "api/api_order.h"
#include "filled.h"
#include "raw.h"

#define THREADS 3
#define ROUNDS 100
#define TURNS 400

static const struct driver *driver;
static struct gpushare_session *session;
static struct gpushare_buffer *buffers[ROUNDS];
static atomic_int here, failed;

/* Wait for the other threads by polling, so that all continue at the same moment. */
static void meet(int threads)
{
	int until = (atomic_fetch_add(&here, 1) / threads + 1) * threads;

	while (atomic_load(&here) < until)
		sched_yield();
}

/* Each buffer's ordering is opened by all threads at once. */
static void *publish_each(void *unused)
{
	cu_stream stream = part_stream();

	CHECK(part_driver()->cuStreamSynchronize(stream) == CU_OK);
	for (int i = 0; i < ROUNDS; i++) {
		meet(THREADS);
		if (gpushare_publish(buffers[i], stream, NULL))
			atomic_fetch_add(&failed, 1);
	}
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	return unused;
}

static void *with_context(void *context)
{
	CHECK(driver->cuCtxSetCurrent(context) == CU_OK);
	return publish_each(NULL);
}

static void open_together(int publications)
{
	pthread_t threads[THREADS];
	cu_context context;
	char name[16];

	driver = part_driver();
	session = part_session();
	CHECK(driver->cuCtxGetCurrent(&context) == CU_OK);
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		buffers[i] = part_filled(session, name, PART_SIZE, 1);
		CHECK(part_published(buffers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, with_context, context));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (int i = 1; i < ROUNDS; i++)
		OK(gpushare_acquire_host(buffers[i], THREADS, 5000, NULL));
	OK(gpushare_acquire_host(buffers[0], (uint64_t)publications, 5000, NULL));
	CHECK(atomic_load(&failed) == THREADS - publications);
}

/* The page is registered once for all threads. A second registration must not undo what a stream
 * may already wait on. */
static void open_by_words(void)
{
	open_together(THREADS);
	CHECK(logged("cuMemHostRegister_v2 0") == ROUNDS);
	CHECK(logged("cuMemHostUnregister") == 0);
	OK(gpushare_close(session));
}

/* The first registration fails; another thread's attempt succeeds. */
static void open_after_failure(void)
{
	setenv("GPUSHARE_SIM_FAIL", "cuMemHostRegister:1:1:999", 1);
	open_together(THREADS - 1);
	CHECK(logged("cuMemHostRegister_v2 0") == ROUNDS);
	CHECK(logged("cuMemHostUnregister") == 0);
	OK(gpushare_close(session));
}

static void *join_each(void *buffer)
{
	for (int i = 0; i < TURNS; i++) {
		meet(2);
		if (gpushare_join(buffer, NULL))
			CHECK(strstr(gpushare_explain(), "left by another thread"));
		meet(2);
	}
	return NULL;
}

/* Whether the join or the leave was last, a participant that joined is waited for and one that
 * left is not. */
static void *leave_each(void *buffer)
{
	uint64_t sequence;

	for (int i = 0; i < TURNS; i++) {
		OK(gpushare_join(buffer, NULL));
		meet(2);
		OK(gpushare_leave(buffer));
		meet(2);
		OK(gpushare_publish_host(buffer, &sequence));
		if (gpushare_release_host(buffer, 0))
			OK(gpushare_reclaim_host(buffer, sequence, 0));
		else
			FAILS(E_TIMED_OUT, "not released",
			      gpushare_reclaim_host(buffer, sequence, 0));
		OK(gpushare_leave(buffer));
		OK(gpushare_reclaim_host(buffer, sequence, 0));
	}
	return NULL;
}

/* Both run in threads of their own. The main thread started a registry with a clone() that
 * shares its memory, so the thread sanitizer no longer sees its locks. */
static void join_and_leave(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	pthread_t joining, leaving;

	CHECK(!pthread_create(&joining, NULL, join_each, buffer));
	CHECK(!pthread_create(&leaving, NULL, leave_each, buffer));
	CHECK(!pthread_join(joining, NULL) && !pthread_join(leaving, NULL));
	OK(gpushare_close(session));
}

static uint64_t asked(const char *verb)
{
	struct gpushare_registry_info info;

	OK(gpushare_stat_registry(session, &info));
	for (int i = 0; i < GPUSHARE_COUNTS_MAX && *info.by_verb[i].what; i++)
		if (!strcmp(info.by_verb[i].what, verb))
			return info.by_verb[i].count;
	return 0;
}

/* One leave is one request to the registry. */
static void leave_once(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	uint64_t before;

	OK(gpushare_join(buffer, NULL));
	before = asked("order");
	OK(gpushare_leave(buffer));
	CHECK(asked("order") == before + 1);
	OK(gpushare_join(buffer, NULL));
	CHECK(asked("order") == before + 2);
	OK(gpushare_close(session));
}

#define LIMIT_MS raw_limit_ms(300)

/* If another thread's call blocks in the driver or at the registry, each call gives up within
 * its timeout. */
static void held_up(void)
{
	const struct gpushare_open_options options = {.timeout_ms = LIMIT_MS};
	struct gpushare_buffer *buffer;
	struct ordering *ordering;
	cu_stream stream;

	alarm(60);
	driver = part_driver();
	stream = part_stream();
	OK(gpushare_open(&options, &session));
	session->driver_ms = 100;
	buffer = part_filled(session, "x", PART_SIZE, 1);
	OK(gpushare_publish_host(buffer, NULL));
	ordering = atomic_load(&buffer->ordering);
	CHECK(turn_take(&ordering->opening, 0));
	FAILS(E_TIMED_OUT, "another thread", gpushare_publish(buffer, stream, NULL));
	turn_give(&ordering->opening);
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(order_take_turn(ordering->page, 0));
	FAILS(E_TIMED_OUT, "another thread", gpushare_publish(buffer, stream, NULL));
	FAILS(E_TIMED_OUT, "another thread", gpushare_publish_host(buffer, NULL));
	order_give_turn(ordering->page);
	CHECK(!ordering_take_turn(ordering));
	FAILS(E_TIMED_OUT, "another thread", gpushare_join(buffer, NULL));
	ordering_give_turn(ordering);
	OK(gpushare_join(buffer, NULL));
	CHECK(order_take_turn(ordering->page, 0));
	FAILS(E_TIMED_OUT, "the GPU's driver", gpushare_publish(buffer, stream, NULL));
	FAILS(E_TIMED_OUT, "the GPU's driver", gpushare_publish_host(buffer, NULL));
	order_give_turn(ordering->page);
	CHECK(turn_take(&ordering->releasing.turn, 0));
	FAILS(E_TIMED_OUT, "another thread", gpushare_release(buffer, stream, 1));
	turn_give(&ordering->releasing.turn);
	OK(gpushare_release(buffer, stream, 1));
	CHECK(turn_take(&ordering->releasing.turn, 0));
	FAILS(E_TIMED_OUT, "another thread", gpushare_release_host(buffer, 2));
	turn_give(&ordering->releasing.turn);
	OK(gpushare_release_host(buffer, 2));
	OK(gpushare_reclaim_host(buffer, 2, 0));
	OK(gpushare_close(session));
}

static void *release_late(void *buffer)
{
	FAILS(E_INVALID, "left by another thread", gpushare_release(buffer, NULL, 1));
	return NULL;
}

static void *release_host_late(void *buffer)
{
	FAILS(E_INVALID, "left by another thread", gpushare_release_host(buffer, 1));
	return NULL;
}

/* While a release is in progress, leaving must not free the slot. The late release then fails
 * without writing to the slot. */
static void left_while_releasing(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	void *(*const late[])(void *) = {release_late, release_host_late};
	struct ordering *ordering;
	struct turn *turn;
	pthread_t thread;

	alarm(60);
	OK(gpushare_publish_host(buffer, NULL));
	for (int i = 0; i < 2; i++) {
		uint32_t slot;

		OK(gpushare_join(buffer, NULL));
		ordering = atomic_load(&buffer->ordering);
		turn = &ordering->releasing.turn;
		slot = atomic_load(&ordering->slot);
		CHECK(slot == (uint32_t)i + 1); /* the previous slot is not reused */
		CHECK(turn_take(turn, 0));
		CHECK(!pthread_create(&thread, NULL, late[i], buffer));
		while (atomic_load(&turn->word) == 1)
			usleep(1000);
		OK(gpushare_leave(buffer));
		turn_give(turn);
		CHECK(!pthread_join(thread, NULL));
		CHECK(!order_reaches(atomic_load(&ordering->page->slot[slot - 1].released), 1));
	}
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(open_by_words, NULL, logged_begin), SCENE(open_after_failure, NULL, logged_begin),
	   SCENE(join_and_leave), SCENE(leave_once), SCENE(held_up), SCENE(left_while_releasing))
