/* SPDX-License-Identifier: MIT */
/* What streams have used of an order is given back when they have come to it, and not before. */
#include "unit.h"

#include <stdio.h>

#include "filled.h"
#include "held.h"

#define TOGETHER 32 /* retired ones are given back */

static const struct driver *driver;
static struct gpushare_session *session;

/* Where each part begins. */
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

/* A publication each, of a buffer whose free waits for no GPU. */
static void come_and_go(struct gpushare_session *of, cu_stream stream, int count)
{
	for (int i = 0; i < count; i++) {
		struct gpushare_buffer *buffer =
		    part_made(of, "passing", PART_SIZE, GPUSHARE_FLAG_VMM);

		OK(gpushare_publish(buffer, stream, NULL));
		OK(gpushare_free(buffer));
	}
}

/* Left twice and more while its releases are still to come: what waits for them holds up the others'
 * giving back, and no more than that. */
static void leave_often(int times)
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

/* However many slots that takes. */
static void leave_many_times(void)
{
	leave_often(30);
	CHECK(given_back() == 1 + 2 * TOGETHER);
}

/* What its session left for a stream to come to is given back by the next session's end. */
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

	OK(gpushare_join(buffer, NULL)); /* so that it is there before */
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL) == CU_OK);
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamEndCapture(stream, &graph) == CU_OK && graph);
	OK(gpushare_free(buffer));
}

/* Those that stay for ever, as a graph has them, are not counted: others are given back together. */
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

STAGE_MAIN(SCENE(leave_many_times, NULL, logged_begin), SCENE(leave_over, NULL, logged_begin),
	   SCENE(keep_captured, NULL, logged_begin))
