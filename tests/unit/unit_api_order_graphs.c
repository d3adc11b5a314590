/* SPDX-License-Identifier: MIT */
/* Publications and what answers them, captured into graphs: together, failing, refused. */
#include "unit.h"

#include <stdio.h>

#include "filled.h"
#include "held.h"
#include "lacking.h"

typedef struct graph_exec_opaque *graph_exec;

static const struct driver *driver;
static struct gpushare_session *session;

static void go_through(cu_stream stream)
{
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
}

#define FAILING(entry, call) WITH(driver, entry, refuse_call, FAILS(E_CUDA, #entry, call))

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

/* All four in one graph: they do nothing before it is launched, and all of it then. */
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

/* From the first capture on numbers are given late; those that a stream has had before come first. */
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
	OK(gpushare_release(buffer, stream, 1)); /* says nothing */
	OK(gpushare_reclaim(buffer, stream, 1));
	go_through(stream);
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(capture_all), SCENE(capture_failing), SCENE(capture_by_host_functions))
