/* SPDX-License-Identifier: MIT */
/* Refusals, order within and between processes, and an unresponsive registry. Also how a
 * buffer's ordering ends, and when page registrations that streams use are released. */
#include "unit.h"

#include "api/api_order.h"
#include "filled.h"
#include "held.h"
#include "raw.h"
#include "stopped.h"

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
	buffer = part_made(session, "y", PART_SIZE, GPUSHARE_FLAG_VMM);
	OK(gpushare_attach(session, "y", &here, &seen));
	FAILS(E_INVALID, "_host", gpushare_publish(seen, NULL, NULL));
	FAILS(E_INVALID, "_host", gpushare_acquire(seen, NULL, 1));
	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 1 && part_published(seen) == 1);
	CHECK(gpushare_ordering(seen) == GPUSHARE_ORDERING_HOST);
	OK(gpushare_close(session));
}

/* Sequences follow the order of the publish calls, whichever stream is used. */
static void keep_order(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session),
			       *gate = part_filled(session, "gate", PART_SIZE, 1);
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
	OK(gpushare_publish_host(buffer, &fourth)); /* waits for the pending ones */
	CHECK(fourth == 4 && part_published(buffer) == 4);
	CHECK(driver->cuStreamSynchronize(fast) == CU_OK);
	OK(gpushare_close(session));
}

/* The later release must not reach the page before the earlier one, even from a faster stream. */
static void release_in_order(void)
{
	const struct gpushare_attach_options defaults = {.wait_ms = 5000};
	struct gpushare_buffer *buffer, *gate;
	cu_stream slow, fast;

	driver = part_driver();
	session = part_session();
	gate = part_filled(session, "gate", PART_SIZE, 1);
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
	OK(gpushare_release(buffer, fast, 1)); /* no effect: 2 is already released */
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

/* Also with a stream of another context. */
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

static void publish_first(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);

	OK(gpushare_publish_host(buffer, NULL));
	say();
	hear();
	OK(gpushare_free(buffer));
	say();
	hear();
	OK(gpushare_close(session));
}

static void publish_second(void)
{
	struct gpushare_buffer *buffer;
	cu_stream stream;
	uint64_t sequence;

	driver = part_driver();
	session = part_session();
	stream = part_stream();
	hear();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	FAILS(E_DENIED, "published by process", gpushare_publish_host(buffer, NULL));
	FAILS(E_DENIED, "published by process", gpushare_reclaim_host(buffer, 1, 0));
	OK(gpushare_acquire(buffer, stream, 1));
	OK(gpushare_acquire(buffer, stream, 2)); /* not published yet, so it waits */
	OK(gpushare_order_status(buffer));
	say();
	hear();
	/* The owner freed the buffer: waits end, and the published sequence stays readable. */
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	FAILS(E_OWNER_GONE, "has gone", gpushare_order_status(buffer));
	FAILS(E_OWNER_GONE, "2 will not come", gpushare_acquire(buffer, stream, 2));
	FAILS(E_OWNER_GONE, "2 will not come", gpushare_acquire_host(buffer, 2, -1, NULL));
	OK(gpushare_acquire_host(buffer, 1, 0, &sequence));
	CHECK(sequence == 1 && part_published(buffer) == 1);
	OK(gpushare_release_host(buffer, 1));
	OK(gpushare_detach(buffer));
	say();
	OK(gpushare_close(session));
}

/* Calls that need the registry time out without side effects; the same calls succeed afterwards. */
static void stay_mute(void)
{
	const struct gpushare_open_options options = {.timeout_ms = raw_limit_ms(1000)};
	struct gpushare_buffer *buffer;
	uint64_t sequence;
	pid_t registry;

	driver = part_driver();
	OK(gpushare_open(&options, &session));
	buffer = part_filled(session, "x", PART_SIZE, 1);
	registry = stage_registry();
	CHECK(stopped(registry));
	FAILS(E_TIMED_OUT, NULL, gpushare_publish_host(buffer, NULL));
	FAILS(E_TIMED_OUT, NULL, gpushare_join(buffer, NULL));
	CHECK(!kill(registry, SIGCONT));
	usleep(100000);
	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 1);
	CHECK(stopped(registry)); /* no further request is needed */
	OK(gpushare_publish_host(buffer, &sequence));
	OK(gpushare_publish(buffer, NULL, &sequence));
	OK(gpushare_acquire_host(buffer, 3, 5000, NULL));
	CHECK(!kill(registry, SIGCONT));
	OK(gpushare_close(session));
}

/* The registry has another page than this session, so later attachers would not see its
 * publications. */
static void have_another(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session), *again;
	struct order_page *page, *whole;
	struct ordering *ordering;
	uint64_t generation;
	int fd;

	OK(gpushare_publish_host(buffer, NULL));
	ordering = atomic_load(&buffer->ordering);
	whole = ordering->page;
	generation = whole->generation;
	fd = order_page_make(generation, whole->id + 1);
	CHECK(fd >= 0 && !order_page_map(fd, generation, &page));
	ordering->page = page;
	FAILS(E_OWNER_GONE, "has lost the order of 'x'", gpushare_join(buffer, NULL));
	FAILS(E_OWNER_GONE, "has gone", gpushare_acquire_host(buffer, 2, 1000, NULL));
	FAILS(E_OWNER_GONE, "has ended", gpushare_publish_host(buffer, NULL));
	OK(gpushare_attach(session, "x", NULL, &again));
	order_page_unmap(whole);
	close(fd);
	OK(gpushare_close(session));
}

/* More leaves than there are slots: a slot is reused once its last release, by stream or CPU, is
 * done. */
static void leave_often(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();

	OK(gpushare_publish_host(buffer, NULL));
	for (unsigned int i = 0; i < ORDER_SLOTS + 10; i++) {
		OK(gpushare_join(buffer, NULL));
		OK(i % 2 ? gpushare_release_host(buffer, 1) : gpushare_release(buffer, stream, 1));
		OK(gpushare_leave(buffer));
		CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	}
	OK(gpushare_free(buffer));
	OK(gpushare_close(session));
}

#define LATE_S 60	  /* seconds until alarm() kills a blocked scene */
#define SETTLED_US 300000 /* long enough for released streams to finish */

/* A stream waits until this word is set. The word is in the program's own memory. */
static _Alignas(4096) _Atomic uint64_t gate[512];

static void hold_up(cu_stream stream)
{
	cu_deviceptr at = 0;

	CHECK(driver->cuMemHostRegister_v2(gate, sizeof(gate), CU_HOST_REGISTER_MAPPED) == CU_OK);
	CHECK(driver->cuMemHostGetDevicePointer_v2(&at, gate, 0) == CU_OK);
	CHECK(driver->cuStreamWaitValue64_v2(stream, at, 1, CU_WAIT_GEQ) == CU_OK);
}

/* A stream still has to release when its consumer leaves and the session closes. The session's
 * own reference is then the last on the context. */
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
	CHECK(driver->cuDevicePrimaryCtxRelease_v2(device) == CU_OK); /* the program's reference */
	OK(gpushare_close(session));
	CHECK(logged("cuMemHostUnregister 0") == 0);
	CHECK(driver->cuCtxPushCurrent_v2(context) == CU_OK);
	CHECK(driver->cuMemAlloc_v2(&at, PART_SIZE) == CU_OK); /* the context still exists */
	atomic_store(gate, 1);
	CHECK(driver->cuStreamSynchronize(held) == CU_OK);
	CHECK(driver->cuCtxPopCurrent_v2(&current) == CU_OK);
}

/* A process publishes on two streams and detaches while the first is held up. The second
 * publication stays behind the first, also after all waiters have been let through. */
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

/* gpushare_leave() fails without a registry; the next registry is told of it. */
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
	another = part_session(); /* starts a registry */
	OK(gpushare_free(part_filled(session, "y", PART_SIZE, 1)));
	OK(gpushare_reclaim_host(buffer, 1, 5000));
	/* After another join, gpushare_leave() itself tells the next registry. */
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
	OK(gpushare_free(part_filled(session, "z", PART_SIZE, 1))); /* makes the session resync */
	OK(gpushare_publish_host(buffer, NULL));
	say();
	hear();
	OK(gpushare_free(buffer));
	say();
	OK(gpushare_close(session));
}

/* A restarted registry without saved records knows neither the buffer nor its owner. A waiter
 * must not take the living owner for gone. */
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

#define TOGETHER 32 /* batch size for releasing retired registrations */

static cu_stream begin(void)
{
	driver = part_driver();
	session = part_session();
	return part_stream();
}

static int given_back(void)
{
	return logged("cuMemHostUnregister 0");
}

/* Publish `count` buffers once each. Their free waits for no GPU. */
static void come_and_go(struct gpushare_session *of, cu_stream stream, int count)
{
	for (int i = 0; i < count; i++) {
		struct gpushare_buffer *buffer =
		    part_made(of, "passing", PART_SIZE, GPUSHARE_FLAG_VMM);

		OK(gpushare_publish(buffer, stream, NULL));
		OK(gpushare_free(buffer));
	}
}

/* Leave `times` times with releases still pending. Until the stream is let go, none of the
 * retired registrations is released; afterwards all can be. */
static void leave_held(int times)
{
	cu_stream stream = begin();
	struct gpushare_buffer *buffer = part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);

	OK(gpushare_publish_host(buffer, NULL));
	held_stop();
	for (int i = 0; i < times; i++) {
		OK(gpushare_join(buffer, NULL));
		OK(gpushare_release(buffer, held_stream(), 1));
		OK(gpushare_leave(buffer));
	}
	OK(gpushare_free(buffer));
	come_and_go(session, stream, 2 * TOGETHER);
	CHECK(given_back() == 0);
	held_let_go();
	CHECK(driver->cuStreamSynchronize(held_stream()) == CU_OK);
	OK(gpushare_close(session));
}

static void leave_many_times(void)
{
	leave_held(30);
	CHECK(given_back() == 1 + 2 * TOGETHER);
}

/* A registration that a session left behind for a pending stream is released when the next
 * session closes. */
static void leave_over(void)
{
	cu_stream stream = begin();
	struct gpushare_buffer *buffer = part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);

	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	OK(gpushare_close(session));
	CHECK(given_back() == 0);
	held_let_go();
	CHECK(driver->cuStreamSynchronize(held_stream()) == CU_OK);
	session = part_session();
	come_and_go(session, stream, 1);
	OK(gpushare_close(session));
	CHECK(given_back() == 2);
}

static void capture(cu_stream stream)
{
	struct gpushare_buffer *buffer =
	    part_made(session, "captured", PART_SIZE, GPUSHARE_FLAG_VMM);
	cu_graph graph;

	OK(gpushare_join(buffer, NULL)); /* the ordering exists before the capture */
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL) == CU_OK);
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamEndCapture(stream, &graph) == CU_OK && graph);
	OK(gpushare_free(buffer));
}

/* Registrations used by a graph stay for ever and don't count towards the batch. */
static void keep_captured(void)
{
	cu_stream stream = begin();

	for (int i = 0; i < TOGETHER; i++)
		capture(stream);
	come_and_go(session, stream, TOGETHER - 1);
	CHECK(given_back() == 0);
	come_and_go(session, stream, 1);
	CHECK(given_back() >= TOGETHER - 1);
	OK(gpushare_close(session));
	CHECK(given_back() == TOGETHER);
}

STAGE_MAIN(SCENE(refuse), SCENE(keep_order), SCENE(reclaim_in_order, release_in_order),
	   SCENE(elsewhere_by_host_functions), SCENE(publish_first, publish_second),
	   SCENE(stay_mute), SCENE(have_another), SCENE(leave_often),
	   SCENE(hold_release, NULL, logged_begin), SCENE(leave_by_two),
	   SCENE(leave_unheard, NULL, stage_needs_autostart),
	   SCENE(share_and_rest, wait_for_the_living, stage_needs_autostart),
	   SCENE(leave_many_times, NULL, logged_begin), SCENE(leave_over, NULL, logged_begin),
	   SCENE(keep_captured, NULL, logged_begin))
