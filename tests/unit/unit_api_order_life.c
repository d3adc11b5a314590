/* SPDX-License-Identifier: MIT */
/* gpushare_publish() and what goes with it: two processes, a registry that does not answer, many
 * that come and go. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api_order.h"
#include "filled.h"
#include "raw.h"
#include "stopped.h"

#define SIZE PART_SIZE

static const struct driver *driver;
static struct gpushare_session *session;

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
	OK(gpushare_acquire(buffer, stream, 2)); /* stands */
	OK(gpushare_order_status(buffer));
	say();
	hear();
	/* freed: what waits is let through, and what was published is there */
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

/* Nothing is owed to a registry that does not answer, and nothing is lost by it. */
static void stay_mute(void)
{
	const struct gpushare_open_options options = {.timeout_ms = raw_limit_ms(1000)};
	struct gpushare_buffer *buffer;
	uint64_t sequence;
	pid_t registry;

	driver = part_driver();
	OK(gpushare_open(&options, &session));
	buffer = part_filled(session, "x", SIZE, 1);
	registry = stage_registry();
	CHECK(stopped(registry));
	FAILS(E_TIMED_OUT, NULL, gpushare_publish_host(buffer, NULL));
	FAILS(E_TIMED_OUT, NULL, gpushare_join(buffer, NULL));
	CHECK(!kill(registry, SIGCONT));
	usleep(100000);
	OK(gpushare_publish_host(buffer, &sequence));
	CHECK(sequence == 1);
	CHECK(stopped(registry)); /* nobody is asked any more */
	OK(gpushare_publish_host(buffer, &sequence));
	OK(gpushare_publish(buffer, NULL, &sequence));
	OK(gpushare_acquire_host(buffer, 3, 5000, NULL));
	CHECK(!kill(registry, SIGCONT));
	OK(gpushare_close(session));
}

/* The registry has another page than this session: whoever comes would not see what is said here. */
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

/* Its slot is used again as soon as the last release has come, on a stream or the CPU. */
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

STAGE_MAIN(SCENE(publish_first, publish_second), SCENE(stay_mute), SCENE(have_another),
	   SCENE(leave_often))
