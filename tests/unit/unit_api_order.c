/* SPDX-License-Identifier: MIT */
/* gpushare_publish() and what goes with it, on the simulated driver: refusals, failures, graphs. */
#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"

#define SIZE PART_SIZE

static const struct driver *driver;
static struct gpushare_session *session;

static void refuse(void)
{
	const struct gpushare_attach_options here = {.host_only = 1, .passive = 1};
	struct gpushare_buffer *buffer = part_begin(&driver, &session), *seen;
	uint64_t sequence = 42;

	FAILS(E_INVALID, "NULL", gpushare_publish(NULL, NULL, NULL));
	FAILS(E_INVALID, "NULL", gpushare_acquire_host(NULL, 1, 0, NULL));
	FAILS(E_INVALID, "NULL", gpushare_leave(NULL));
	FAILS(E_INVALID, "out_published", gpushare_sequence(buffer, NULL));
	CHECK(gpushare_ordering(NULL) == GPUSHARE_ORDERING_NONE);
	CHECK(part_published(buffer) == 0);
	FAILS(E_INVALID, "not joined", gpushare_release_host(buffer, 1));
	FAILS(E_INVALID, "not joined", gpushare_release(buffer, NULL, 1));
	FAILS(E_TIMED_OUT, "1 of 'x'", gpushare_acquire_host(buffer, 1, 0, &sequence));
	FAILS(E_TIMED_OUT, "within 30 ms", gpushare_acquire_host(buffer, 1, 30, &sequence));
	CHECK(sequence == 42);
	FAILS(E_RANGE, "neither published", gpushare_release_host(buffer, 1));
	OK(gpushare_join(buffer, &sequence));
	CHECK(sequence == 1);
	OK(gpushare_leave(buffer));
	OK(gpushare_leave(buffer));
	OK(gpushare_free(buffer));
	buffer = part_made(session, "y", SIZE, GPUSHARE_FLAG_VMM);
	OK(gpushare_attach(session, "y", &here, &seen));
	FAILS(E_INVALID, "_host", gpushare_publish(seen, NULL, NULL));
	FAILS(E_INVALID, "_host", gpushare_acquire(seen, NULL, 1));
	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 1 && part_published(seen) == 1);
	CHECK(gpushare_ordering(seen) == GPUSHARE_ORDERING_HOST);
	OK(gpushare_close(session));
}

/* What comes second is published second, on whatever stream. */
static void keep_order(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session),
			       *gate = part_filled(session, "gate", SIZE, 1);
	cu_stream slow = part_stream(), fast = part_stream();
	uint64_t first, second, third, fourth;

	OK(gpushare_acquire(gate, slow, 1));
	OK(gpushare_publish(buffer, slow, &first));
	OK(gpushare_publish(buffer, slow, &second));
	OK(gpushare_publish(buffer, fast, &third));
	CHECK(first == 1 && second == 2 && third == 3);
	usleep(20000);
	CHECK(part_published(buffer) == 0);
	OK(gpushare_publish_host(gate, NULL));
	OK(gpushare_publish_host(buffer, &fourth)); /* after those that are under way */
	CHECK(fourth == 4 && part_published(buffer) == 4);
	CHECK(driver->cuStreamSynchronize(fast) == CU_OK);
	OK(gpushare_close(session));
}

/* Of releases too: what is released last does not come before what is released first. */
static void release_in_order(void)
{
	const struct gpushare_attach_options defaults = {.wait_ms = 5000};
	struct gpushare_buffer *buffer, *gate;
	cu_stream slow, fast;

	driver = part_driver();
	session = part_session();
	gate = part_filled(session, "gate", SIZE, 1);
	OK(gpushare_attach(session, "x", &defaults, &buffer));
	slow = part_stream();
	fast = part_stream();
	OK(gpushare_join(buffer, NULL));
	say();
	OK(gpushare_acquire(gate, slow, 1));
	OK(gpushare_acquire(buffer, slow, 1));
	OK(gpushare_release(buffer, slow, 1));
	OK(gpushare_acquire_host(buffer, 2, 5000, NULL));
	OK(gpushare_release(buffer, fast, 2));
	OK(gpushare_release(buffer, fast, 1)); /* says nothing */
	say();
	hear();
	OK(gpushare_publish_host(gate, NULL));
	OK(gpushare_release_host(buffer, 2));
	say();
	hear();
	OK(gpushare_close(session));
}

static void reclaim_in_order(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();

	hear();
	OK(gpushare_publish_host(buffer, NULL));
	OK(gpushare_publish_host(buffer, NULL));
	hear();
	FAILS(E_TIMED_OUT, "not released", gpushare_reclaim_host(buffer, 1, 30));
	OK(gpushare_reclaim(buffer, stream, 2));
	OK(gpushare_publish(buffer, stream, NULL));
	usleep(20000);
	CHECK(part_published(buffer) == 2);
	say();
	hear();
	OK(gpushare_reclaim_host(buffer, 2, 5000));
	OK(gpushare_acquire_host(buffer, 3, 5000, NULL));
	say();
	OK(gpushare_close(session));
}

/* Streams of another context too. */
static void elsewhere_by_host_functions(void)
{
	struct gpushare_buffer *buffer;
	cu_context mine;
	cu_stream stream;

	setenv("GPUSHARE_ORDERING", "host-functions", 1);
	buffer = part_begin(&driver, &session);
	OK(gpushare_publish(buffer, NULL, NULL));
	CHECK(driver->cuCtxCreate_v2(&mine, 0, 0) == CU_OK);
	CHECK(driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	OK(gpushare_publish(buffer, stream, NULL));
	OK(gpushare_acquire(buffer, stream, 2));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	CHECK(driver->cuCtxDestroy_v2(mine) == CU_OK);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(refuse), SCENE(keep_order), SCENE(reclaim_in_order, release_in_order),
	   SCENE(elsewhere_by_host_functions))
