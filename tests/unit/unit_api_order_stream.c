/* SPDX-License-Identifier: MIT */
/* What streams are given of an order: whatever context is current, each call of the driver missing or
 * failing on the way, and when who publishes has gone. */
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "api/api_order.h"
#include "filled.h"
#include "held.h"
#include "lacking.h"

static const struct driver *driver;
static struct gpushare_session *session;

static void go_through(cu_stream stream)
{
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
}

static cu_stream elsewhere(cu_context *out_context)
{
	cu_stream stream;

	CHECK(driver->cuCtxCreate_v2(out_context, 0, 0) == CU_OK);
	CHECK(driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	return stream;
}

/* A publication, and back: `number` is the next. */
static void hand_over(struct gpushare_buffer *buffer, cu_stream stream, uint64_t number)
{
	uint64_t sequence = 0;

	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == number);
	OK(gpushare_acquire(buffer, stream, number));
	OK(gpushare_release(buffer, stream, number));
	OK(gpushare_reclaim(buffer, stream, number));
	go_through(stream);
	CHECK(part_published(buffer) == number);
}

static cu_context seen_current;

static cu_result see_context(void)
{
	driver->cuCtxGetCurrent(&seen_current);
	return CU_UNKNOWN;
}

/* A stream's own context, be another current, none, or none that is told of. */
static void hand_over_anywhere(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_context first, other, current;
	cu_stream here = part_stream(), there;
	uint64_t number = 0;

	CHECK(driver->cuCtxGetCurrent(&first) == CU_OK);
	there = elsewhere(&other);
	OK(gpushare_join(buffer, NULL));
	hand_over(buffer, here, ++number); /* the other is current */
	hand_over(buffer, there, ++number);
	CHECK(driver->cuCtxGetCurrent(&current) == CU_OK && current == other);
	CHECK(driver->cuCtxSetCurrent(first) == CU_OK);
	hand_over(buffer, there, ++number);
	WITH(driver, cuStreamGetCtx, NULL, hand_over(buffer, here, ++number));
	WITH(driver, cuStreamGetCtx, refuse_call, hand_over(buffer, here, ++number));
	WITH(driver, cuCtxGetCurrent, refuse_call, OK(gpushare_publish(buffer, here, NULL)));
	number++;
	for (current = first; current;) /* each takes one off the stack */
		CHECK(driver->cuCtxSetCurrent(NULL) == CU_OK &&
		      driver->cuCtxGetCurrent(&current) == CU_OK);
	OK(gpushare_publish(buffer, NULL, NULL));
	OK(gpushare_acquire_host(buffer, ++number, 20000, NULL));
	CHECK(driver->cuCtxGetCurrent(&current) == CU_OK && !current);
	WITH(driver, cuStreamWriteValue64_v2, see_context,
	     FAILS(E_CUDA, "cuStreamWriteValue64_v2", gpushare_publish(buffer, there, NULL)));
	CHECK(seen_current == other);
	WITH(driver, cuCtxPushCurrent_v2, refuse_call,
	     FAILS(E_CUDA, "cuCtxPushCurrent_v2", gpushare_publish(buffer, there, NULL)));
	CHECK(driver->cuCtxGetCurrent(&current) == CU_OK && !current);
	CHECK(driver->cuCtxSetCurrent(first) == CU_OK);
	WITH(driver, cuStreamWriteValue64_v2, see_context,
	     FAILS(E_CUDA, "cuStreamWriteValue64_v2", gpushare_publish(buffer, here, NULL)));
	CHECK(seen_current == first);
	hand_over(buffer, here, ++number);
	OK(gpushare_close(session));
}

/* Without a number of the stream's own, what is published next waits in it for what was published last. */
static void publish_unknown(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	uint64_t sequence = 0;

	held_stop();
	WITH(driver, cuStreamGetId, NULL, {
		OK(gpushare_publish(buffer, held_stream(), NULL));
		OK(gpushare_publish(buffer, held_stream(), NULL));
	});
	WITH(driver, cuStreamGetId, refuse_call, OK(gpushare_publish(buffer, held_stream(), NULL)));
	WITH(driver, cuStreamIsCapturing, NULL,
	     OK(gpushare_publish(buffer, part_stream(), &sequence)));
	CHECK(sequence == 4 && part_published(buffer) == 0);
	held_let_go();
	go_through(held_stream());
	OK(gpushare_acquire_host(buffer, 4, 20000, NULL));
	OK(gpushare_close(session));
}

#define FAILING(entry, call) WITH(driver, entry, refuse_call, FAILS(E_CUDA, #entry, call))

/* Another stream's publication is still to come: nothing is lost by a wait that can't be had. */
static void wait_failing(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();
	uint64_t sequence = 42;

	OK(gpushare_join(buffer, NULL));
	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	FAILING(cuStreamWaitValue32_v2, gpushare_publish(buffer, stream, &sequence));
	FAILING(cuStreamWaitValue64_v2, gpushare_acquire(buffer, stream, 1));
	FAILING(cuStreamWaitValue64_v2, gpushare_reclaim(buffer, stream, 1));
	CHECK(sequence == 42);
	/* a driver without that waits for the whole word */
	WITH(driver, cuStreamWaitValue32_v2, NULL, OK(gpushare_publish(buffer, stream, &sequence)));
	CHECK(sequence == 2);
	OK(gpushare_acquire(buffer, held_stream(), 2));
	OK(gpushare_release(buffer, held_stream(), 1));
	FAILING(cuStreamWaitValue32_v2, gpushare_release(buffer, stream, 2));
	FAILING(cuStreamWriteValue64_v2, gpushare_release(buffer, held_stream(), 2));
	OK(gpushare_release(buffer, stream, 2));
	held_let_go();
	go_through(held_stream());
	OK(gpushare_reclaim_host(buffer, 2, 20000));
	CHECK(part_published(buffer) == 2);
	OK(gpushare_close(session));
}

/* Each call, from where it first needs the GPU. */
static void nothing_to_begin_with(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();

	OK(gpushare_join(buffer, NULL));
	OK(gpushare_publish_host(buffer, NULL));
	FAILING(cuMemHostRegister_v2, gpushare_publish(buffer, stream, NULL));
	FAILING(cuMemHostRegister_v2, gpushare_acquire(buffer, stream, 2));
	FAILING(cuMemHostRegister_v2, gpushare_release(buffer, stream, 1));
	FAILING(cuMemHostRegister_v2, gpushare_reclaim(buffer, stream, 1));
	FAILING(cuStreamIsCapturing, gpushare_publish(buffer, stream, NULL));
	FAILING(cuStreamIsCapturing, gpushare_acquire(buffer, stream, 2));
	FAILING(cuStreamIsCapturing, gpushare_release(buffer, stream, 1));
	FAILING(cuStreamIsCapturing, gpushare_reclaim(buffer, stream, 1));
	CHECK(part_published(buffer) == 1);
	FAILS(E_TIMED_OUT, "not released", gpushare_reclaim_host(buffer, 1, 0));
	OK(gpushare_release(buffer, stream, 1));
	OK(gpushare_reclaim(buffer, stream, 1));
	go_through(stream);
	OK(gpushare_close(session));
}

static struct gpushare_buffer *fresh(void)
{
	static int count;
	char name[16];

	snprintf(name, sizeof(name), "fresh%d", count++);
	return part_made(session, name, PART_SIZE, 0);
}

/* Whatever of it a driver lacks, or won't tell: then host functions are the way. */
static void lack_words(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();

#define BY_HOST(entry, instead) \
	buffer = fresh(); \
	WITH(driver, entry, instead, OK(gpushare_publish(buffer, stream, NULL))); \
	go_through(stream); \
	CHECK(gpushare_ordering(buffer) == GPUSHARE_ORDERING_HOST_FUNCTION && \
	      part_published(buffer) == 1)
	BY_HOST(cuStreamWaitValue64_v2, NULL);
	BY_HOST(cuStreamWriteValue64_v2, NULL);
	BY_HOST(cuMemHostRegister_v2, NULL);
	BY_HOST(cuMemHostUnregister, NULL);
	BY_HOST(cuMemHostGetDevicePointer_v2, NULL);
	BY_HOST(cuDeviceGetAttribute, NULL);
	BY_HOST(cuDeviceGetAttribute, refuse_call);
	BY_HOST(cuCtxGetDevice, refuse_call);
#undef BY_HOST
	buffer = fresh(); /* an older driver has no modes of captures */
	WITH(driver, cuThreadExchangeStreamCaptureMode, NULL,
	     OK(gpushare_publish(buffer, stream, NULL)));
	buffer = fresh();
	WITH(driver, cuThreadExchangeStreamCaptureMode, refuse_call,
	     OK(gpushare_publish(buffer, stream, NULL)));
	CHECK(gpushare_ordering(buffer) == GPUSHARE_ORDERING_STREAM);
	buffer = fresh();
	WITH(driver, cuCtxPushCurrent_v2, refuse_call,
	     FAILS(E_CUDA, "cuCtxPushCurrent_v2", gpushare_publish(buffer, stream, NULL)));
	OK(gpushare_publish(buffer, stream, NULL));
	go_through(stream);
	OK(gpushare_close(session));
}

/* Its context can't be entered any more: what a stream of it was to publish will not come. */
static void lose_context(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	uint64_t sequence = 42;

	alarm(60);
	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	WITH(
	    driver, cuCtxPushCurrent_v2, refuse_call,
	    FAILS(E_CUDA, "its CUDA context has failed", gpushare_publish_host(buffer, &sequence)));
	CHECK(sequence == 42);
	held_let_go();
	OK(gpushare_publish_host(buffer, &sequence)); /* which takes the number that was not used */
	CHECK(sequence == 2 && part_published(buffer) == 2);
	OK(gpushare_close(session));
}

/* Who publishes has gone: what was published is there, what was not is never waited for. */
static void gone(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();
	uint64_t sequence = 42;
	cu_event behind;

	OK(gpushare_publish(buffer, stream, NULL));
	OK(gpushare_join(buffer, NULL));
	OK(gpushare_acquire(buffer, stream, 2));
	CHECK(driver->cuEventCreate(&behind, CU_EVENT_NO_TIMING) == CU_OK);
	CHECK(driver->cuEventRecord(behind, stream) == CU_OK);
	CHECK(driver->cuEventQuery(behind) == CU_NOT_READY);
	CHECK(order_mark_gone(((struct ordering *)atomic_load(&buffer->ordering))->page));
	go_through(stream); /* it is let through */
	OK(gpushare_acquire(buffer, stream, 1));
	FAILS(E_OWNER_GONE, "1 was the last, and 2 will not come",
	      gpushare_acquire(buffer, stream, 2));
	FAILS(E_OWNER_GONE, "1 was the last", gpushare_order_status(buffer));
	FAILS(E_OWNER_GONE, "has ended", gpushare_publish(buffer, stream, &sequence));
	FAILS(E_OWNER_GONE, "has ended", gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 42 && part_published(buffer) == 1);
	OK(gpushare_release(buffer, stream, 2)); /* a stream was to wait for it */
	go_through(stream);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(hand_over_anywhere), SCENE(publish_unknown), SCENE(wait_failing),
	   SCENE(nothing_to_begin_with), SCENE(gone), SCENE(lack_words), SCENE(lose_context))
