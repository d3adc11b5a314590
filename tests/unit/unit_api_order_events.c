/* SPDX-License-Identifier: MIT */
/* Order by events, between processes: streams that wait for what is recorded and not done, and each
 * call of the driver on the way failing, or missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants some of the above first */
#include <cmocka.h>

#include "filled.h"
#include "held.h"
#include "lacking.h"

#define SIZE PART_SIZE

static const struct driver *driver;
static struct gpushare_session *session;

static struct gpushare_buffer *begin(void)
{
	setenv("GPUSHARE_ORDERING", "events", 1);
	return part_begin(&driver, &session);
}

/* Nothing is published by a call that fails, and no number is lost. */
static void publish_failing(void)
{
	struct gpushare_buffer *buffer = begin();
	cu_stream stream = part_stream();
	uint64_t sequence = 42;

#define FAILING(entry) \
	WITH(driver, entry, refuse_call, \
	     FAILS(E_CUDA, #entry, gpushare_publish(buffer, stream, &sequence)); \
	     CHECK(sequence == 42 && part_published(buffer) == 0))
	FAILING(cuEventCreate);
	FAILING(cuIpcGetEventHandle);
	FAILING(cuStreamWaitEvent);
	FAILING(cuEventRecord);
	FAILING(cuLaunchHostFunc);
#undef FAILING
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	CHECK(sequence == 1 && part_published(buffer) == 1);
	CHECK(gpushare_ordering(buffer) == GPUSHARE_ORDERING_EVENTS);
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 2);
	OK(gpushare_close(session));
}

static void test_publish_failing(void **state)
{
	(void)state;
	stage_play(publish_failing, NULL);
}

/* Without any of these no stream orders anything; the CPU does. */
static void lacking(void)
{
	struct gpushare_buffer *buffer = begin();
	cu_stream stream = part_stream();
	uint64_t sequence = 42;

#define LACKING(entry) \
	WITH(driver, entry, NULL, \
	     FAILS(E_NOT_SUPPORTED, "so no stream orders 'x'; use the calls that end in _host", \
		   gpushare_publish(buffer, stream, &sequence)))
	LACKING(cuIpcGetEventHandle);
	LACKING(cuIpcOpenEventHandle);
	LACKING(cuStreamWaitEvent);
	LACKING(cuLaunchHostFunc);
#undef LACKING
	CHECK(sequence == 42);
	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 1);
	OK(gpushare_close(session));
}

static void test_lacking(void **state)
{
	(void)state;
	stage_play(lacking, NULL);
}

/* Records what is not done before it hears so, twice. */
static void publish_held(void)
{
	struct gpushare_buffer *buffer = begin();
	uint64_t sequence;

	say();
	hear(); /* the other has joined */
	for (uint64_t round = 1; round <= 2; round++) {
		held_stop();
		OK(gpushare_publish(buffer, held_stream(), &sequence));
		CHECK(sequence == round && part_published(buffer) == round - 1);
		say();
		hear();
		held_let_go();
		OK(gpushare_reclaim_host(buffer, round, 20000));
		/* the event may be seen before the number that is stored behind it */
		OK(gpushare_acquire_host(buffer, round, 20000, NULL));
		CHECK(part_published(buffer) == round);
	}
	OK(gpushare_free(buffer));
	say();
	hear();
	OK(gpushare_close(session));
}

static struct gpushare_buffer *join(void)
{
	struct gpushare_buffer *buffer;
	uint64_t first = 42;

	setenv("GPUSHARE_ORDERING", "events", 1);
	driver = part_driver();
	session = part_session();
	hear();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	OK(gpushare_join(buffer, &first));
	CHECK(first == 1);
	say();
	return buffer;
}

/* The stream has its waits at once, and is through when the other's is. */
static void acquire_held(void)
{
	struct gpushare_buffer *buffer = join();
	cu_stream stream = part_stream();
	cu_event behind;

	CHECK(driver->cuEventCreate(&behind, CU_EVENT_NO_TIMING) == CU_OK);
	for (uint64_t round = 1; round <= 2; round++) {
		hear();
		WITH(driver, cuStreamWaitEvent, refuse_call,
		     FAILS(E_CUDA, "cuStreamWaitEvent", gpushare_acquire(buffer, stream, round)));
		OK(gpushare_acquire(buffer, stream, round));
		CHECK(part_published(buffer) == round - 1);
		CHECK(driver->cuEventRecord(behind, stream) == CU_OK);
		CHECK(driver->cuEventQuery(behind) == CU_NOT_READY);
		OK(gpushare_release(buffer, stream, round));
		say();
		CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
		OK(gpushare_acquire_host(buffer, round, 20000, NULL));
	}
	hear();
	FAILS(E_OWNER_GONE, "x", gpushare_acquire(buffer, stream, 3));
	OK(gpushare_acquire(buffer, stream, 2)); /* that was published */
	say();
	OK(gpushare_close(session));
}

static void test_held(void **state)
{
	(void)state;
	stage_play(publish_held, acquire_held);
}

/* Each call of a release; what is not released holds up who reclaims. */
static void release_failing(void)
{
	struct gpushare_buffer *buffer = join();
	cu_stream stream = part_stream();

#define FAILING(entry) \
	WITH(driver, entry, refuse_call, \
	     FAILS(E_CUDA, #entry, gpushare_release(buffer, stream, round)))
	for (uint64_t round = 1; round <= 2; round++) {
		hear();
		say();
		OK(gpushare_acquire(buffer, stream, round));
		CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
		if (round == 1)
			FAILING(cuEventCreate);
		FAILING(cuStreamWaitEvent);
		FAILING(cuEventRecord);
		FAILING(cuLaunchHostFunc);
		OK(gpushare_release(buffer, stream, round));
	}
#undef FAILING
	hear();
	say();
	OK(gpushare_close(session));
}

static void test_release_failing(void **state)
{
	(void)state;
	stage_play(publish_held, release_failing);
}

/* The event can't be opened: it waits on the CPU until it can, or what it waits for is there. */
static void open_failing(void)
{
	struct gpushare_buffer *buffer = join();
	cu_stream stream = part_stream();

	hear();
	say(); /* let go: the CPU sees it published */
	WITH(driver, cuIpcOpenEventHandle, refuse_call, OK(gpushare_acquire(buffer, stream, 1)));
	CHECK(part_published(buffer) == 1);
	OK(gpushare_release_host(buffer, 1));
	hear();
	OK(gpushare_acquire(buffer, stream, 2));
	CHECK(part_published(buffer) == 1);
	say();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	OK(gpushare_acquire_host(buffer, 2, 20000, NULL));
	OK(gpushare_release_host(buffer, 2));
	hear();
	say();
	OK(gpushare_close(session));
}

static void test_open_failing(void **state)
{
	(void)state;
	stage_play(publish_held, open_failing);
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
	const struct CMUnitTest tests[] = {
	    T(test_publish_failing), T(test_lacking),	   T(test_held),
	    T(test_release_failing), T(test_open_failing),
	};

	(void)argc;
	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
