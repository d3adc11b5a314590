/* SPDX-License-Identifier: MIT */
/* Order by events, and what is of before: an event that was told and not recorded, numbers that began anew
 * behind another publisher, what a stream comes to when its attachment has gone. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api_order.h"
#include "filled.h"
#include "held.h"
#include "lacking.h"
#include "stopped.h"

#define SETTLED_US 20000 /* who waits has begun to */
#define ANOTHER 4711	 /* which process that is */

static const struct driver *driver;
static struct gpushare_session *session;

static void begin(void)
{
	alarm(60);
	setenv("GPUSHARE_ORDERING", "events", 1);
	driver = part_driver();
	session = part_session();
}

static struct gpushare_buffer *attach(struct gpushare_session *of)
{
	struct gpushare_buffer *buffer;

	OK(gpushare_attach(of, "x", NULL, &buffer));
	return buffer;
}

/* Mapped memory, whose detach waits for no stream. */
static struct gpushare_buffer *make(void)
{
	begin();
	held_begin();
	return part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);
}

static struct order_page *page_of(const struct gpushare_buffer *buffer)
{
	return atomic_load(&buffer->ordering)->page;
}

/* It goes with something unfinished, comes back, and fails to publish more: on its way to that. */
static void fail_and_go_on(void)
{
	struct gpushare_buffer *buffer, *same;
	struct gpushare_session *another;
	cu_stream stream;

	begin();
	hear();
	buffer = attach(session);
	stream = part_stream();
	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	another = part_session();
	same = attach(another);
	WITH(driver, cuEventRecord, refuse_call,
	     FAILS(E_CUDA, "cuEventRecord", gpushare_publish(same, stream, NULL)));
	say();
	usleep(SETTLED_US);
	CHECK(part_published(buffer) == 0);
	held_let_go_seen();
	hear();
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

/* Not before its stream was let go. */
static void see(uint64_t number)
{
	struct gpushare_buffer *buffer = make();

	say();
	hear();
	OK(gpushare_acquire(buffer, part_stream(), number));
	CHECK(held_was_let_go());
	say();
	OK(gpushare_close(session));
}

static void see_the_first(void)
{
	see(1);
}

static void test_never_recorded(void **state)
{
	(void)state;
	stage_play(see_the_first, fail_and_go_on);
}

/* A call that failed has told of its event as of the number that another attachment gave then. */
static void tell_twice(void)
{
	struct gpushare_buffer *buffer, *same;
	struct gpushare_session *another;
	cu_stream stream;

	begin();
	hear();
	buffer = attach(session);
	another = part_session();
	same = attach(another);
	stream = part_stream();
	OK(gpushare_publish(buffer, stream, NULL));
	WITH(driver, cuLaunchHostFunc, refuse_call,
	     FAILS(E_CUDA, "cuLaunchHostFunc", gpushare_publish(same, stream, NULL)));
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 2);
	held_stop();
	OK(gpushare_publish(same, held_stream(), NULL));
	say();
	usleep(SETTLED_US);
	held_let_go_seen();
	hear();
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

static void see_the_third(void)
{
	see(3);
}

static void test_told_twice(void **state)
{
	(void)state;
	stage_play(see_the_third, tell_twice);
}

/* As the registry does when another process publishes although something of ours is unfinished. */
static void others_begin(struct order_page *page)
{
	order_begin(page, ANOTHER);
}

static void *publish_theirs(void *page)
{
	usleep(SETTLED_US);
	held_mark();
	order_raise(&((struct order_page *)page)->published, 1);
	return NULL;
}

/* What it has left unfinished is none of the numbers that another process gives since. */
static void acquire_theirs(void)
{
	struct gpushare_buffer *buffer = make(), *same;
	struct gpushare_session *another = part_session();
	int registry = stage_registry();
	pthread_t theirs;

	same = attach(another);
	held_stop();
	OK(gpushare_publish(same, held_stream(), NULL));
	OK(gpushare_publish(same, held_stream(), NULL));
	OK(gpushare_detach(same));
	OK(gpushare_join(buffer, NULL));
	/* It knows of no other, and would say again that who published has gone. */
	CHECK(stopped(registry));
	others_begin(page_of(buffer));
	CHECK(!pthread_create(&theirs, NULL, publish_theirs, page_of(buffer)));
	OK(gpushare_acquire(buffer, part_stream(), 1));
	CHECK(held_was_let_go() && !pthread_join(theirs, NULL));
	held_let_go();
	CHECK(!kill(registry, SIGCONT));
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

STAGE_PART(acquire_theirs)

/* Publications 1 to 3, two attachments', and both are left. */
static void leave_three(struct gpushare_buffer *looks, cu_stream stream)
{
	struct gpushare_session *sessions[] = {part_session(), part_session()};
	struct gpushare_buffer *one = attach(sessions[0]), *two = attach(sessions[1]);

	held_stop();
	OK(gpushare_publish(one, held_stream(), NULL));
	OK(gpushare_acquire(looks, stream, 1));
	OK(gpushare_publish(two, held_stream(), NULL));
	OK(gpushare_publish(two, held_stream(), NULL));
	OK(gpushare_detach(one));
	OK(gpushare_detach(two));
	held_let_go();
	CHECK(driver->cuStreamSynchronize(held_stream()) == CU_OK && part_published(looks) == 3);
}

/* Nor of those that it gives itself then, by an attachment that is older: what comes behind one waits. */
static void publish_anew(void)
{
	struct gpushare_session *another = part_session();
	struct gpushare_buffer *buffer = make(), *same = attach(another);
	cu_stream stream = part_stream();
	struct order_page *page;
	uint64_t sequence;

	leave_three(same, stream);
	page = page_of(same);
	atomic_store(&page->published, 0); /* the other came before these were said */
	sequence = atomic_load(&page->publisher);
	others_begin(page);
	order_begin(page, sequence);
	held_stop();
	OK(gpushare_publish(same, held_stream(), &sequence));
	CHECK(sequence == 1);
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 2);
	usleep(SETTLED_US);
	CHECK(part_published(buffer) == 0 && !held_is_done(stream));
	held_let_go();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 2);
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

STAGE_PART(publish_anew)

/* A number that a stream takes late is none when its attachment has gone: another may publish by then. */
static void leave_late(void)
{
	struct gpushare_buffer *buffer = make(), *same;
	struct gpushare_session *another = part_session();
	cu_stream stream = part_stream();
	cu_graph graph;

	setenv("GPUSHARE_ORDERING", "words", 1);
	CHECK(driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL) == CU_OK);
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamEndCapture(stream, &graph) == CU_OK);
	setenv("GPUSHARE_ORDERING", "events", 1);
	same = attach(another);
	held_stop();
	OK(gpushare_publish(same, held_stream(), NULL));
	OK(gpushare_detach(same));
	held_let_go();
	CHECK(driver->cuStreamSynchronize(held_stream()) == CU_OK);
	CHECK(part_published(buffer) == 0);
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

STAGE_PART(leave_late)

static struct gpushare_buffer *behind;

static void *end_it(void *unused)
{
	(void)unused;
	usleep(SETTLED_US);
	order_mark_gone(page_of(behind));
	return NULL;
}

/* What it waits behind on the CPU will not come: it says why, and gives no number. */
static void wait_in_vain(void)
{
	cu_stream stream;
	pthread_t end;
	uint64_t sequence = 42;

	behind = make();
	stream = part_stream();
	held_stop();
	OK(gpushare_publish(behind, held_stream(), NULL));
	atomic_store(&page_of(behind)->next, 2); /* the CPU's, which waits */
	WITH(driver, cuEventQuery, refuse_call,
	     FAILS(E_CUDA, "its CUDA context has failed",
		   gpushare_publish(behind, stream, &sequence)));
	CHECK(!pthread_create(&end, NULL, end_it, NULL));
	FAILS(E_OWNER_GONE, "'x' has ended", gpushare_publish(behind, stream, &sequence));
	CHECK(!pthread_join(end, NULL) && sequence == 42);
	held_let_go();
	OK(gpushare_close(session));
}

STAGE_PART(wait_in_vain)

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
	const struct CMUnitTest tests[] = {
	    T(test_never_recorded), T(test_told_twice), T(test_acquire_theirs),
	    T(test_publish_anew),   T(test_leave_late), T(test_wait_in_vain),
	};

	(void)argc;
	stage_init(argv);
	if (!held_share())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
