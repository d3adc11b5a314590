/* SPDX-License-Identifier: MIT */
/* Order by host functions, as on a GPU without stream memory operations: between processes, behind what is not done,
 * and what fails on the way. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api_order.h"
#include "filled.h"
#include "held.h"
#include "lacking.h"

#define SETTLED_US 20000 /* who waits has begun to */

static const struct driver *driver;
static struct gpushare_session *session;

static void by_host_functions(void)
{
	setenv("GPUSHARE_ORDERING", "host-functions", 1);
	driver = part_driver();
	session = part_session();
}

/* "x", mapped memory, whose detach waits for no stream. */
static struct gpushare_buffer *make(void)
{
	by_host_functions();
	held_begin();
	return part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);
}

/* The other part's. */
static struct gpushare_buffer *attach(void)
{
	struct gpushare_buffer *buffer;

	by_host_functions();
	hear();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	return buffer;
}

/* Nothing is published by a call that fails, and no number is lost. */
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

/* Publishes what is not done, twice. */
static void publish_held(void)
{
	struct gpushare_buffer *buffer = make();
	uint64_t sequence;

	say();
	hear(); /* the other has joined */
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

/* It returns when the other's is done: nothing of that comes into the stream. */
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
	OK(gpushare_acquire(buffer, stream, 2)); /* that was published */
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

/* Behind a stream's number come the CPU's and another stream's: the calls wait. */
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

/* The stream goes on behind what it publishes: two numbers of one stream wait for nothing. */
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

/* Who has left something unfinished is killed: its number is the next one's. */
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

/* What it waits behind will not come: it says why, and gives no number. */
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

STAGE_MAIN(SCENE(publish_failing, NULL, held_share), SCENE(publish_held, acquire_held, held_share),
	   SCENE(publish_behind, NULL, held_share), SCENE(publish_twice, NULL, held_share),
	   SCENE(publish_in_its_place, be_killed, held_share),
	   SCENE(wait_in_vain, NULL, held_share))
