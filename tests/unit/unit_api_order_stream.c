/* SPDX-License-Identifier: MIT */
/* What the ordering queues on streams: in any current context, with each driver call missing or
 * failing, after the publisher's end, in captured graphs, and by host functions. */
#include "unit.h"

#include "api/api_order.h"
#include "filled.h"
#include "held.h"

/* Replacement for an entry of the library's driver table. */
static cu_result refuse_call(void)
{
	return CU_UNKNOWN;
}

/* Run `check` with `entry` replaced by `instead` (NULL or refuse_call), then restore the table. */
#define WITH(table, entry, instead, check) \
	do { \
		struct driver *all = (struct driver *)(uintptr_t)(table); \
		cu_##entry##_call *whole = all->entry; \
		*(void **)&all->entry = (void *)(instead); \
		check; \
		all->entry = whole; \
	} while (0)

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

/* Publish, acquire, release and reclaim `number`, which must be the next sequence. */
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

/* The stream's own context is used, even if another or none is current, or the driver can't name
 * it. */
static void hand_over_anywhere(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_context first, other, current;
	cu_stream here = part_stream(), there;
	uint64_t number = 0;

	CHECK(driver->cuCtxGetCurrent(&first) == CU_OK);
	there = elsewhere(&other);
	OK(gpushare_join(buffer, NULL));
	hand_over(buffer, here, ++number); /* `other` is current */
	hand_over(buffer, there, ++number);
	CHECK(driver->cuCtxGetCurrent(&current) == CU_OK && current == other);
	CHECK(driver->cuCtxSetCurrent(first) == CU_OK);
	hand_over(buffer, there, ++number);
	WITH(driver, cuStreamGetCtx, NULL, hand_over(buffer, here, ++number));
	WITH(driver, cuStreamGetCtx, refuse_call, hand_over(buffer, here, ++number));
	WITH(driver, cuCtxGetCurrent, refuse_call, OK(gpushare_publish(buffer, here, NULL)));
	number++;
	for (current = first; current;) /* each call pops one context */
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

/* Without cuStreamGetId, a publication waits in the stream for the previous one. */
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

/* Another stream's publication is pending. A failing wait must lose no sequence. */
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
	/* without the 32-bit wait, the stream waits for the whole 64-bit word */
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

/* Fail the first GPU step of each call. */
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

/* Without any one of the calls that stream memory operations need, host functions are used. */
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
	buffer = fresh(); /* an older driver has no capture modes */
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

/* A pending stream publication whose context can't be entered any more counts as failed. */
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
	OK(gpushare_publish_host(buffer, &sequence)); /* takes the unused sequence */
	CHECK(sequence == 2 && part_published(buffer) == 2);
	OK(gpushare_close(session));
}

/* The publisher is gone. Published sequences stay available; waits for later ones end. */
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
	go_through(stream); /* the wait has ended */
	OK(gpushare_acquire(buffer, stream, 1));
	FAILS(E_OWNER_GONE, "1 was the last, and 2 will not come",
	      gpushare_acquire(buffer, stream, 2));
	FAILS(E_OWNER_GONE, "1 was the last", gpushare_order_status(buffer));
	FAILS(E_OWNER_GONE, "has ended", gpushare_publish(buffer, stream, &sequence));
	FAILS(E_OWNER_GONE, "has ended", gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 42 && part_published(buffer) == 1);
	OK(gpushare_release(buffer, stream, 2)); /* the stream waited for it */
	go_through(stream);
	OK(gpushare_close(session));
}

typedef struct graph_exec_opaque *graph_exec;

static void launch_anew(cu_graph graph, cu_stream stream)
{
	cu_result (*instantiate)(graph_exec *, cu_graph, unsigned long long);
	cu_result (*launch)(graph_exec, cu_stream);
	graph_exec exec;

	CHECK(driver->cuGetProcAddress("cuGraphInstantiateWithFlags", (void **)&instantiate, 12000,
				       0) == CU_OK);
	CHECK(driver->cuGetProcAddress("cuGraphLaunch", (void **)&launch, 12000, 0) == CU_OK);
	CHECK(instantiate(&exec, graph, 0) == CU_OK && launch(exec, stream) == CU_OK);
}

static cu_graph end_capture(cu_stream stream)
{
	cu_graph graph = NULL;

	CHECK(driver->cuStreamEndCapture(stream, &graph) == CU_OK && graph);
	return graph;
}

static void begin_capture(cu_stream stream)
{
	CHECK(driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL) == CU_OK);
}

/* Capturing has no effect; launching the graph performs all four calls. */
static void capture_all(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();
	cu_graph graph;

	OK(gpushare_join(buffer, NULL));
	OK(gpushare_publish(buffer, stream, NULL));
	go_through(stream);
	begin_capture(stream);
	OK(gpushare_release(buffer, stream, 1));
	OK(gpushare_reclaim(buffer, stream, 1));
	OK(gpushare_publish(buffer, stream, NULL));
	OK(gpushare_acquire(buffer, stream, 2));
	FAILING(cuStreamWriteValue64_v2, gpushare_release(buffer, stream, 1));
	graph = end_capture(stream);
	FAILS(E_TIMED_OUT, "not released", gpushare_reclaim_host(buffer, 1, 20));
	CHECK(part_published(buffer) == 1);
	launch_anew(graph, stream);
	go_through(stream);
	CHECK(part_published(buffer) == 2);
	OK(gpushare_reclaim_host(buffer, 1, 0));
	FAILS(E_TIMED_OUT, "not released", gpushare_reclaim_host(buffer, 2, 0));
	OK(gpushare_close(session));
}

/* From the first capture on, sequences are assigned when the stream executes, after those that
 * streams already had. */
static void capture_failing(void)
{
	struct gpushare_buffer *buffer = part_begin(&driver, &session);
	cu_stream stream = part_stream();
	uint64_t sequence = 42;
	cu_graph graph;

	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	begin_capture(stream);
	FAILING(cuLaunchHostFunc, gpushare_publish(buffer, stream, &sequence));
	FAILING(cuStreamWaitValue64_v2, gpushare_publish(buffer, stream, &sequence));
	OK(gpushare_publish(buffer, stream, NULL));
	graph = end_capture(stream);
	launch_anew(graph, stream);
	FAILING(cuLaunchHostFunc, gpushare_publish(buffer, stream, &sequence));
	FAILING(cuStreamWaitValue64_v2, gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 42 && part_published(buffer) == 0);
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 0 && part_published(buffer) == 0);
	held_let_go();
	go_through(stream);
	CHECK(part_published(buffer) == 3);
	OK(gpushare_publish(buffer, stream, NULL));
	OK(gpushare_acquire_host(buffer, 4, 20000, NULL));
	OK(gpushare_close(session));
}

static void capture_by_host_functions(void)
{
	struct gpushare_buffer *buffer;
	cu_stream stream;

	setenv("GPUSHARE_ORDERING", "host-functions", 1);
	buffer = part_begin(&driver, &session);
	stream = part_stream();
	OK(gpushare_join(buffer, NULL));
	OK(gpushare_publish(buffer, stream, NULL));
	OK(gpushare_acquire_host(buffer, 1, 20000, NULL));
	begin_capture(stream);
	FAILS(E_NOT_SUPPORTED, "captured", gpushare_release(buffer, stream, 1));
	FAILS(E_NOT_SUPPORTED, "captured", gpushare_reclaim(buffer, stream, 1));
	end_capture(stream);
	OK(gpushare_release(buffer, stream, 1));
	OK(gpushare_release(buffer, stream, 1)); /* no effect */
	OK(gpushare_reclaim(buffer, stream, 1));
	go_through(stream);
	OK(gpushare_close(session));
}

#define SETTLED_US 20000 /* a waiting thread has started to wait */

static void by_host_functions(void)
{
	setenv("GPUSHARE_ORDERING", "host-functions", 1);
	driver = part_driver();
	session = part_session();
}

/* "x" is mapped memory, so its detach waits for no stream. */
static struct gpushare_buffer *make(void)
{
	by_host_functions();
	held_begin();
	return part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);
}

/* Attach the other scene part's buffer. */
static struct gpushare_buffer *attach(void)
{
	struct gpushare_buffer *buffer;

	by_host_functions();
	hear();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	return buffer;
}

/* A failing call publishes nothing and uses no sequence. */
static void publish_failing(void)
{
	struct gpushare_buffer *buffer = make();
	cu_stream stream = part_stream();
	uint64_t sequence = 42;

	WITH(driver, cuLaunchHostFunc, NULL,
	     FAILS(E_NOT_SUPPORTED, "so no stream orders 'x'; use the calls that end in _host",
		   gpushare_publish(buffer, stream, &sequence)));
	WITH(driver, cuLaunchHostFunc, refuse_call,
	     FAILS(E_CUDA, "cuLaunchHostFunc", gpushare_publish(buffer, stream, &sequence)));
	CHECK(sequence == 42 && part_published(buffer) == 0);
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	CHECK(sequence == 1 && part_published(buffer) == 1);
	CHECK(gpushare_ordering(buffer) == GPUSHARE_ORDERING_HOST_FUNCTION);
	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 2 && part_published(buffer) == 2);
	OK(gpushare_close(session));
}

/* Publish twice on a held-up stream. */
static void publish_held(void)
{
	struct gpushare_buffer *buffer = make();
	uint64_t sequence;

	say();
	hear(); /* the other part has joined */
	for (uint64_t round = 1; round <= 2; round++) {
		held_begin();
		held_stop();
		OK(gpushare_publish(buffer, held_stream(), &sequence));
		CHECK(sequence == round && part_published(buffer) == round - 1);
		say();
		hear();
		usleep(SETTLED_US);
		CHECK(part_published(buffer) == round - 1);
		held_let_go_seen();
		OK(gpushare_reclaim(buffer, held_stream(), round));
		CHECK(part_published(buffer) == round);
	}
	OK(gpushare_free(buffer));
	say();
	hear();
	OK(gpushare_close(session));
}

/* The call blocks until the publication is done and queues nothing on the stream. */
static void acquire_held(void)
{
	struct gpushare_buffer *buffer = attach();
	cu_stream stream = part_stream();
	uint64_t first = 42;

	OK(gpushare_join(buffer, &first));
	CHECK(first == 1);
	say();
	for (uint64_t round = 1; round <= 2; round++) {
		hear();
		say();
		OK(gpushare_acquire(buffer, stream, round));
		CHECK(held_was_let_go() && held_is_done(stream));
		WITH(driver, cuLaunchHostFunc, refuse_call,
		     FAILS(E_CUDA, "cuLaunchHostFunc", gpushare_release(buffer, stream, round)));
		OK(gpushare_release(buffer, stream, round));
		CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	}
	hear();
	FAILS(E_OWNER_GONE, "x", gpushare_acquire(buffer, stream, 3));
	OK(gpushare_acquire(buffer, stream, 2)); /* already published */
	say();
	OK(gpushare_close(session));
}

static void *let_go_later(void *unused)
{
	usleep(SETTLED_US);
	held_let_go_seen();
	return NULL;
}

static void *publish_by_cpu(void *buffer)
{
	uint64_t sequence;

	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 2 && held_was_let_go());
	return NULL;
}

/* After a pending stream publication, publishing by CPU or another stream blocks until it is
 * done. */
static void publish_behind(void)
{
	struct gpushare_buffer *buffer = make();
	cu_stream stream = part_stream();
	pthread_t cpu, later;
	uint64_t sequence;

	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	CHECK(!pthread_create(&cpu, NULL, publish_by_cpu, buffer));
	usleep(SETTLED_US);
	CHECK(part_published(buffer) == 0);
	CHECK(!pthread_create(&later, NULL, let_go_later, NULL));
	CHECK(!pthread_join(cpu, NULL) && !pthread_join(later, NULL));
	held_begin();
	held_stop();
	OK(gpushare_publish(buffer, held_stream(), &sequence));
	CHECK(sequence == 3);
	CHECK(!pthread_create(&later, NULL, let_go_later, NULL));
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 4 && held_was_let_go());
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 4);
	CHECK(!pthread_join(later, NULL));
	OK(gpushare_close(session));
}

/* Two publications on one stream don't wait for each other on the CPU. */
static void publish_twice(void)
{
	struct gpushare_buffer *buffer = make(), *same;
	struct gpushare_session *another = part_session();
	uint64_t sequence;

	OK(gpushare_attach(another, "x", NULL, &same));
	held_stop();
	OK(gpushare_publish(same, held_stream(), NULL));
	OK(gpushare_publish(same, held_stream(), &sequence));
	CHECK(sequence == 2 && part_published(buffer) == 0);
	held_let_go();
	OK(gpushare_acquire(buffer, part_stream(), 2));
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

/* A killed publisher's unfinished sequence is reused by the next publisher. */
static void be_killed(void)
{
	struct gpushare_buffer *buffer;
	int status;
	pid_t pid = fork();

	if (!pid) {
		buffer = attach();
		held_stop();
		OK(gpushare_publish(buffer, held_stream(), NULL));
		OK(gpushare_detach(buffer));
		kill(getpid(), SIGKILL);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	say();
	hear();
}

static void publish_in_its_place(void)
{
	struct gpushare_buffer *buffer = make();
	cu_stream stream = part_stream();
	uint64_t sequence;

	say();
	hear();
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	CHECK(sequence == 1 && part_published(buffer) == 1);
	say();
	OK(gpushare_close(session));
}

static struct gpushare_buffer *ending;

static void *end_it(void *unused)
{
	usleep(SETTLED_US);
	order_mark_gone(atomic_load(&ending->ordering)->page);
	return NULL;
}

/* The publication that the call waits for never arrives. It must report why and use no sequence. */
static void wait_in_vain(void)
{
	cu_stream stream;
	pthread_t end;
	uint64_t sequence = 42;

	ending = make();
	stream = part_stream();
	held_stop();
	OK(gpushare_publish(ending, held_stream(), NULL));
	WITH(driver, cuEventQuery, refuse_call,
	     FAILS(E_CUDA, "its CUDA context has failed",
		   gpushare_publish(ending, stream, &sequence));
	     FAILS(E_CUDA, "its CUDA context has failed", gpushare_acquire(ending, stream, 1)));
	CHECK(!pthread_create(&end, NULL, end_it, NULL));
	FAILS(E_OWNER_GONE, "'x' has ended", gpushare_publish(ending, stream, &sequence));
	CHECK(!pthread_join(end, NULL) && sequence == 42);
	held_let_go();
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(hand_over_anywhere), SCENE(publish_unknown), SCENE(wait_failing),
	   SCENE(nothing_to_begin_with), SCENE(gone), SCENE(lack_words), SCENE(lose_context),
	   SCENE(capture_all), SCENE(capture_failing), SCENE(capture_by_host_functions),
	   SCENE(publish_failing, NULL, held_share), SCENE(publish_held, acquire_held, held_share),
	   SCENE(publish_behind, NULL, held_share), SCENE(publish_twice, NULL, held_share),
	   SCENE(publish_in_its_place, be_killed, held_share),
	   SCENE(wait_in_vain, NULL, held_share))
