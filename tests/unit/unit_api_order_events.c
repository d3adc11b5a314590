/* SPDX-License-Identifier: MIT */
/* Order by events, between processes: what is recorded and not done, or done and not said so far, and
 * each call of the driver on the way failing, or missing. */
#include "unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "filled.h"
#include "held.h"
#include "lacking.h"

#define SETTLED_US 20000 /* who waits has begun to */

static const struct driver *driver;
static struct gpushare_session *session;
static atomic_uint *let_go; /* both parts see it: the round whose stream was */

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
	LACKING(cuEventQuery);
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
		usleep(SETTLED_US);
		CHECK(part_published(buffer) == round - 1);
		atomic_store(let_go, (unsigned int)round);
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

/* It returns when the other's is done: nothing of that comes into the stream. */
static void acquire_held(void)
{
	struct gpushare_buffer *buffer = join();
	cu_stream stream = part_stream();
	cu_event behind;

	CHECK(driver->cuEventCreate(&behind, CU_EVENT_NO_TIMING) == CU_OK);
	for (uint64_t round = 1; round <= 2; round++) {
		hear();
		WITH(driver, cuEventQuery, refuse_call,
		     FAILS(E_CUDA, "cuEventQuery", gpushare_acquire(buffer, stream, round)));
		say();
		WITH(driver, cuStreamWaitEvent, refuse_call,
		     OK(gpushare_acquire(buffer, stream, round)));
		CHECK(atomic_load(let_go) == round);
		CHECK(driver->cuEventRecord(behind, stream) == CU_OK);
		CHECK(driver->cuEventQuery(behind) == CU_OK);
		OK(gpushare_release(buffer, stream, round));
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

/* What this process has recorded itself its streams wait for, and it does not. */
static void acquire_own(void)
{
	struct gpushare_buffer *buffer = begin();
	cu_stream stream = part_stream();
	cu_event behind;

	CHECK(driver->cuEventCreate(&behind, CU_EVENT_NO_TIMING) == CU_OK);
	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	WITH(driver, cuStreamWaitEvent, refuse_call,
	     FAILS(E_CUDA, "cuStreamWaitEvent", gpushare_acquire(buffer, stream, 1)));
	OK(gpushare_acquire(buffer, stream, 1));
	CHECK(part_published(buffer) == 0);
	CHECK(driver->cuEventRecord(behind, stream) == CU_OK);
	CHECK(driver->cuEventQuery(behind) == CU_NOT_READY);
	held_let_go();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	OK(gpushare_acquire_host(buffer, 1, 20000, NULL));
	OK(gpushare_close(session));
}

static void test_own(void **state)
{
	(void)state;
	stage_play(acquire_own, NULL);
}

static void stay(void *user)
{
	while (!atomic_load((atomic_uint *)user))
		usleep(1000);
}

/* Its host functions are held up by another: the number is not stored. */
static void publish_unsaid(void)
{
	struct gpushare_buffer *buffer = begin();
	cu_stream stream = part_stream();
	atomic_uint done = 0;

	say();
	hear();
	CHECK(driver->cuLaunchHostFunc(held_stream(), stay, &done) == CU_OK);
	OK(gpushare_publish(buffer, stream, NULL));
	say();
	hear();
	CHECK(part_published(buffer) == 0);
	atomic_store(&done, 1);
	OK(gpushare_acquire_host(buffer, 1, 20000, NULL));
	CHECK(driver->cuStreamSynchronize(held_stream()) == CU_OK);
	OK(gpushare_close(session));
	say();
}

/* The event says so, also beside a capture that forbids to ask one. */
static void acquire_unsaid(void)
{
	struct gpushare_buffer *buffer = join();
	cu_stream stream = part_stream(), captured = part_stream();
	cu_graph graph = NULL;

	hear();
	CHECK(driver->cuStreamBeginCapture_v2(captured, CU_CAPTURE_GLOBAL) == CU_OK);
	OK(gpushare_acquire(buffer, stream, 1));
	CHECK(driver->cuStreamEndCapture(captured, &graph) == CU_OK && graph);
	CHECK(part_published(buffer) == 0);
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	say();
	hear();
	OK(gpushare_close(session));
}

static void test_unsaid(void **state)
{
	(void)state;
	stage_play(publish_unsaid, acquire_unsaid);
}

/* It goes, comes back, and has another event then. */
static void publish_anew(void)
{
	struct gpushare_buffer *buffer;

	setenv("GPUSHARE_ORDERING", "events", 1);
	driver = part_driver();
	session = part_session();
	for (uint64_t round = 1; round <= 2; round++) {
		hear();
		OK(gpushare_attach(session, "x", NULL, &buffer));
		held_stop();
		OK(gpushare_publish(buffer, held_stream(), NULL));
		say();
		hear();
		usleep(SETTLED_US);
		CHECK(part_published(buffer) == round - 1);
		atomic_store(let_go, (unsigned int)round);
		held_let_go();
		OK(gpushare_acquire_host(buffer, round, 20000, NULL));
		CHECK(driver->cuStreamSynchronize(held_stream()) == CU_OK);
		OK(gpushare_detach(buffer));
		say();
	}
	OK(gpushare_close(session));
}

static void acquire_anew(void)
{
	struct gpushare_buffer *buffer = begin();
	cu_stream stream = part_stream();

	atomic_store(let_go, 0);
	for (uint64_t round = 1; round <= 2; round++) {
		say();
		hear();
		say();
		OK(gpushare_acquire(buffer, stream, round));
		CHECK(atomic_load(let_go) == round);
		hear();
	}
	OK(gpushare_close(session));
}

static void test_anew(void **state)
{
	(void)state;
	stage_play(acquire_anew, publish_anew);
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
	CHECK(part_published(buffer) == 1);
	say();
	OK(gpushare_acquire(buffer, stream, 2));
	CHECK(atomic_load(let_go) == 2);
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
	    T(test_publish_failing),
	    T(test_lacking),
	    T(test_held),
	    T(test_own),
	    T(test_unsaid),
	    T(test_anew),
	    T(test_release_failing),
	    T(test_open_failing),
	};

	(void)argc;
	stage_init(argv);
	let_go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (let_go == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
