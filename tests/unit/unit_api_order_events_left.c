/* SPDX-License-Identifier: MIT */
/* Order by events behind what somebody else has recorded and what is not done: an attachment of before,
 * another process, a number of the CPU's, a graph. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"
#include "held.h"

#define SETTLED_US 20000 /* who waits has begun to */

static const struct driver *driver;
static struct gpushare_session *session;

/* "x", of this process or of the other part's: mapped memory, whose detach waits for no stream. */
static struct gpushare_buffer *begin(bool own)
{
	struct gpushare_buffer *buffer;

	setenv("GPUSHARE_ORDERING", "events", 1);
	driver = part_driver();
	session = part_session();
	if (own) {
		held_begin();
		return part_made(session, "x", PART_SIZE, GPUSHARE_FLAG_VMM);
	}
	hear();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	return buffer;
}

/* It publishes what is not done, goes, comes back, and publishes on another stream. */
static void come_back(void)
{
	struct gpushare_buffer *buffer = begin(false);
	cu_stream stream = part_stream();
	uint64_t sequence;

	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	OK(gpushare_detach(buffer));
	OK(gpushare_attach(session, "x", NULL, &buffer));
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 2);
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 3);
	say();
	usleep(SETTLED_US);
	CHECK(part_published(buffer) == 0 && !held_is_done(stream));
	held_let_go_seen();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 3);
	hear();
	OK(gpushare_close(session));
}

static void see_it_in_order(void)
{
	struct gpushare_buffer *buffer = begin(true);

	say();
	hear();
	OK(gpushare_acquire(buffer, part_stream(), 2));
	CHECK(held_was_let_go());
	OK(gpushare_acquire_host(buffer, 2, 20000, NULL));
	say();
	OK(gpushare_close(session));
}

static void test_came_back(void **state)
{
	(void)state;
	stage_play(see_it_in_order, come_back);
}

/* The session that published is closed, and its context is the program's. */
static void begin_anew(void)
{
	struct gpushare_buffer *buffer = begin(false);
	cu_stream stream = part_stream();
	uint64_t sequence;

	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	OK(gpushare_close(session));
	session = part_session();
	OK(gpushare_attach(session, "x", NULL, &buffer));
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 2 && part_published(buffer) == 0 && !held_is_done(stream));
	say();
	usleep(SETTLED_US);
	held_let_go_seen();
	hear();
	OK(gpushare_close(session));
}

static void test_began_anew(void **state)
{
	(void)state;
	stage_play(see_it_in_order, begin_anew);
}

/* What another session of this process has recorded its streams wait for, and it does not. */
static void acquire_from_another(void)
{
	struct gpushare_buffer *buffer = begin(true), *same;
	struct gpushare_session *another = part_session();
	cu_stream stream = part_stream();

	OK(gpushare_attach(another, "x", NULL, &same));
	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	OK(gpushare_acquire(same, stream, 1));
	CHECK(part_published(buffer) == 0 && !held_is_done(stream));
	held_let_go();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK);
	OK(gpushare_acquire_host(same, 1, 20000, NULL));
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

static void test_two_sessions(void **state)
{
	(void)state;
	stage_play(acquire_from_another, NULL);
}

/* Who has left something unfinished is killed: its number is the next one's. */
static void be_killed(void)
{
	struct gpushare_buffer *buffer;
	int status;
	pid_t pid = fork();

	if (!pid) {
		buffer = begin(false);
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
	struct gpushare_buffer *buffer = begin(true);
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

static void test_killed(void **state)
{
	(void)state;
	stage_play(publish_in_its_place, be_killed);
}

static void *let_go_later(void *unused)
{
	(void)unused;
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

/* The CPU has a number, and waits for the one before. */
static void publish_behind_cpu(void)
{
	struct gpushare_buffer *buffer = begin(true);
	cu_stream stream = part_stream();
	pthread_t cpu, later;
	uint64_t sequence;

	held_stop();
	OK(gpushare_publish(buffer, held_stream(), NULL));
	CHECK(!pthread_create(&cpu, NULL, publish_by_cpu, buffer));
	usleep(SETTLED_US);
	CHECK(!pthread_create(&later, NULL, let_go_later, NULL));
	OK(gpushare_publish(buffer, stream, &sequence));
	CHECK(sequence == 3 && held_was_let_go());
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 3);
	CHECK(!pthread_join(cpu, NULL) && !pthread_join(later, NULL));
	OK(gpushare_close(session));
}

static void test_cpu(void **state)
{
	(void)state;
	stage_play(publish_behind_cpu, NULL);
}

static void launch(cu_graph graph, cu_stream stream)
{
	cu_result (*instantiate)(void **, cu_graph, unsigned long long);
	cu_result (*run)(void *, cu_stream);
	void *executable;

	CHECK(driver->cuGetProcAddress("cuGraphInstantiateWithFlags", (void **)&instantiate, 12000,
				       0) == CU_OK);
	CHECK(driver->cuGetProcAddress("cuGraphLaunch", (void **)&run, 12000, 0) == CU_OK);
	CHECK(instantiate(&executable, graph, 0) == CU_OK && run(executable, stream) == CU_OK);
}

/* Numbers are given when a GPU comes there, since a graph of this process has one: here too. */
static void publish_behind_graph(void)
{
	struct gpushare_buffer *buffer = begin(true), *same;
	struct gpushare_session *another = part_session();
	cu_stream stream = part_stream();
	uint64_t sequence = 42;
	cu_graph graph;

	setenv("GPUSHARE_ORDERING", "words", 1);
	CHECK(driver->cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL) == CU_OK);
	OK(gpushare_publish(buffer, stream, NULL));
	CHECK(driver->cuStreamEndCapture(stream, &graph) == CU_OK);
	launch(graph, stream);
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 1);
	setenv("GPUSHARE_ORDERING", "events", 1);
	OK(gpushare_attach(another, "x", NULL, &same));
	held_stop();
	OK(gpushare_publish(same, held_stream(), &sequence));
	CHECK(gpushare_ordering(same) == GPUSHARE_ORDERING_EVENTS);
	OK(gpushare_publish(same, stream, NULL));
	CHECK(sequence == 0 && part_published(buffer) == 1);
	held_let_go();
	CHECK(driver->cuStreamSynchronize(stream) == CU_OK && part_published(buffer) == 3);
	OK(gpushare_close(another));
	OK(gpushare_close(session));
}

static void test_graph(void **state)
{
	(void)state;
	stage_play(publish_behind_graph, NULL);
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
	const struct CMUnitTest tests[] = {
	    T(test_came_back), T(test_began_anew), T(test_two_sessions),
	    T(test_killed),    T(test_cpu),	   T(test_graph),
	};

	(void)argc;
	stage_init(argv);
	if (!held_share())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
