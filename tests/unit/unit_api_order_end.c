/* SPDX-License-Identifier: MIT */
/* How an order ends in a process: with a context that fails, behind a stream that is held up, and
 * without a registry that hears of it. */
#include "unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "filled.h"

#define LATE_S 60	  /* a part that is not let through by then fails */
#define SETTLED_US 300000 /* streams that were let through are through */

static const struct driver *driver;
static struct gpushare_session *session;

/* A word in memory of the program's own, which holds up a stream until it is set. */
static _Alignas(4096) _Atomic uint64_t gate[512];

static void hold_up(cu_stream stream)
{
	cu_deviceptr at = 0;

	CHECK(driver->cuMemHostRegister_v2(gate, sizeof(gate), CU_HOST_REGISTER_MAPPED) == CU_OK);
	CHECK(driver->cuMemHostGetDevicePointer_v2(&at, gate, 0) == CU_OK);
	CHECK(driver->cuStreamWaitValue64_v2(stream, at, 1, CU_WAIT_GEQ) == CU_OK);
}

/* The same of a release, whose consumer has left; and in a context that is the session's alone. */
static void hold_release(void)
{
	cu_context context, current;
	struct gpushare_buffer *buffer;
	cu_device device;
	cu_stream held;
	cu_deviceptr at;

	driver = part_driver();
	CHECK(driver->cuCtxGetCurrent(&context) == CU_OK &&
	      driver->cuCtxGetDevice(&device) == CU_OK);
	session = part_session();
	buffer = part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);
	OK(gpushare_publish_host(buffer, NULL));
	OK(gpushare_join(buffer, NULL));
	held = part_stream();
	hold_up(held);
	OK(gpushare_release(buffer, held, 1));
	OK(gpushare_leave(buffer));
	CHECK(driver->cuDevicePrimaryCtxRelease_v2(device) == CU_OK); /* the program's */
	OK(gpushare_close(session));
	CHECK(logged("cuMemHostUnregister 0") == 0);
	CHECK(driver->cuCtxPushCurrent_v2(context) == CU_OK);
	CHECK(driver->cuMemAlloc_v2(&at, PART_SIZE) == CU_OK); /* the context is there */
	atomic_store(gate, 1);
	CHECK(driver->cuStreamSynchronize(held) == CU_OK);
	CHECK(driver->cuCtxPopCurrent_v2(&current) == CU_OK);
}

/* Who publishes by two streams leaves while the first is held up: what the second has is behind that, also
 * where all who wait are let through. */
static void leave_by_two(void)
{
	struct gpushare_session *owner;
	struct gpushare_buffer *buffer, *its;
	cu_stream held, stream;
	uint64_t sequence;

	alarm(LATE_S);
	driver = part_driver();
	owner = part_session();
	session = part_session();
	held = part_stream();
	stream = part_stream();
	its = part_made(owner, "x", PART_SIZE, GPUSHARE_FLAG_VMM);
	OK(gpushare_attach(session, "x", NULL, &buffer));
	hold_up(held);
	OK(gpushare_publish(buffer, held, NULL));
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 2);
	OK(gpushare_detach(buffer));
	FAILS(E_OWNER_GONE, "0 was the last", gpushare_acquire_host(its, 1, 20000, NULL));
	usleep(SETTLED_US);
	FAILS(E_OWNER_GONE, "0 was the last", gpushare_acquire_host(its, 2, 20000, NULL));
	OK(gpushare_sequence(its, &sequence));
	CHECK(sequence == 0);
	atomic_store(gate, 1);
	CHECK(driver->cuStreamSynchronize(held) == CU_OK &&
	      driver->cuStreamSynchronize(stream) == CU_OK);
	OK(gpushare_acquire_host(its, 2, 0, NULL));
	OK(gpushare_close(session));
	OK(gpushare_close(owner));
}

static void end_registry(void)
{
	pid_t pid = stage_registry();

	CHECK(pid > 0 && !kill(pid, SIGKILL));
	while (stage_registry())
		usleep(1000);
}

/* No registry hears that a consumer leaves: the next one that comes does. */
static void leave_unheard(void)
{
	const struct gpushare_open_options options = {.timeout_ms = 1000, .no_autostart = 1};
	struct gpushare_buffer *buffer;
	struct gpushare_session *another;

	driver = part_driver();
	another = part_session();
	OK(gpushare_open(&options, &session));
	buffer = part_filled(session, "x", PART_SIZE, 1);
	OK(gpushare_publish_host(buffer, NULL));
	OK(gpushare_join(buffer, NULL));
	FAILS(E_TIMED_OUT, "not released", gpushare_reclaim_host(buffer, 1, 0));
	end_registry();
	FAILS(E_NO_REGISTRY, NULL, gpushare_leave(buffer));
	OK(gpushare_close(another));
	another = part_session(); /* which starts one */
	OK(gpushare_free(part_filled(session, "y", PART_SIZE, 1)));
	OK(gpushare_reclaim_host(buffer, 1, 5000));
	/* asked once more, the registry is told at once */
	OK(gpushare_join(buffer, NULL));
	end_registry();
	FAILS(E_NO_REGISTRY, NULL, gpushare_leave(buffer));
	OK(gpushare_close(another));
	another = part_session();
	OK(gpushare_leave(buffer));
	OK(gpushare_publish_host(buffer, NULL));
	OK(gpushare_reclaim_host(buffer, 2, 0));
	OK(gpushare_close(session));
	OK(gpushare_close(another));
}

static void share_and_rest(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);

	OK(gpushare_publish_host(buffer, NULL));
	say();
	hear();
	OK(gpushare_free(part_filled(session, "z", PART_SIZE, 1))); /* the registry hears of it */
	OK(gpushare_publish_host(buffer, NULL));
	say();
	hear();
	OK(gpushare_free(buffer));
	say();
	OK(gpushare_close(session));
}

/* A registry that knows nothing of the buffer any more, and has not heard its owner so far: he is there
 * all the same. */
static void wait_for_the_living(void)
{
	struct gpushare_buffer *buffer;
	char path[128];
	cu_stream stream;

	alarm(LATE_S);
	driver = part_driver();
	session = part_session();
	stream = part_stream();
	hear();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	OK(gpushare_acquire(buffer, stream, 2));
	end_registry();
	snprintf(path, sizeof(path), "%s/registry.state", getenv("GPUSHARE_DIR"));
	CHECK(!unlink(path));
	for (int i = 0; i < 2; i++) {
		OK(gpushare_free(part_made(session, "y", PART_SIZE, GPUSHARE_FLAG_VMM)));
		OK(gpushare_order_status(buffer));
	}
	say();
	hear();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	OK(gpushare_order_status(buffer));
	CHECK(part_published(buffer) == 2);
	OK(gpushare_acquire(buffer, stream, 3));
	say();
	hear();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	FAILS(E_OWNER_GONE, "has gone", gpushare_order_status(buffer));
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(hold_release, NULL, logged_begin), SCENE(leave_by_two),
	   SCENE(leave_unheard, NULL, stage_needs_autostart),
	   SCENE(share_and_rest, wait_for_the_living, stage_needs_autostart))
