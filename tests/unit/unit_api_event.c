/* SPDX-License-Identifier: MIT */
/* Named events between two processes: order, lifetimes, the owner's end, a registry's restart. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "held.h"
#include "raw.h"
#include "stage.h"

static struct gpushare_event *create(struct gpushare_session *session, const char *name)
{
	struct gpushare_event *event = NULL;

	OK(gpushare_event_create(session, name, -1, 0, &event));
	CHECK(event && gpushare_event_handle(event));
	return event;
}

static struct gpushare_event *open_one(struct gpushare_session *session, const char *name)
{
	const struct gpushare_event_options options = {.wait_ms = 20000};
	struct gpushare_event *event = NULL;

	OK(gpushare_event_open(session, name, &options, &event));
	CHECK(event && gpushare_event_handle(event));
	return event;
}

static void record_held(struct gpushare_event *event)
{
	held_stop();
	OK(gpushare_event_record(event, held_stream()));
}

/* The owner's work is held up until it hears that the other has seen that. */
static void owner(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = create(session, "step");

	FAILS(E_TIMED_OUT, "", (record_held(event), gpushare_event_wait_host(event, 0)));
	FAILS(E_NOT_READY, "step", gpushare_event_query(event));
	say();
	hear();
	held_let_go();
	OK(gpushare_event_wait_host(event, -1));
	hear();
	/* and now the other's */
	FAILS(E_NOT_READY, "step", gpushare_event_query(event));
	say();
	OK(gpushare_event_wait_host(event, 20000));
	hear();
	OK(gpushare_event_close(event));
	OK(gpushare_close(session));
}

static void follower(void)
{
	struct gpushare_session *session = part_session();
	const struct driver *driver = part_driver();
	struct gpushare_event *event;
	long long began;
	cu_stream stream;
	cu_event behind;

	hear();
	event = open_one(session, "step");
	FAILS(E_NOT_READY, "step", gpushare_event_query(event));
	began = raw_now_ms();
	FAILS(E_TIMED_OUT, "60 ms", gpushare_event_wait_host(event, 60));
	CHECK(raw_now_ms() - began >= 60 && raw_now_ms() - began < 1060 + raw_slack_ms());
	CHECK(driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	CHECK(driver->cuEventCreate(&behind, CU_EVENT_NO_TIMING) == CU_OK);
	OK(gpushare_event_wait(event, stream));
	CHECK(driver->cuEventRecord(behind, stream) == CU_OK);
	CHECK(driver->cuEventQuery(behind) == CU_NOT_READY);
	say();
	OK(gpushare_event_wait_host(event, 20000));
	OK(gpushare_event_query(event));
	CHECK(driver->cuEventSynchronize(behind) == CU_OK);
	record_held(event);
	say();
	hear();
	held_let_go();
	OK(gpushare_event_wait_host(event, 20000));
	OK(gpushare_event_close(event));
	OK(gpushare_close(session));
	say();
}

/* The very event, in this session and in another; it lasts as long as one of them has it. */
static void own(void)
{
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session(), *another = part_session();
	struct gpushare_event *event = create(session, "own"), *same, *again, *there;
	cu_event handle = gpushare_event_handle(event);
	struct gpushare_info info;

	same = open_one(session, "own");
	again = open_one(session, "own");
	there = open_one(another, "own");
	CHECK(same == again && same != event && there != same);
	CHECK(gpushare_event_handle(same) == handle && gpushare_event_handle(there) == handle);
	OK(gpushare_event_info(there, &info));
	CHECK(!strcmp(info.name, "own") && info.backing == GPUSHARE_BACKING_EVENT);
	CHECK(!info.size && !info.base_size && info.owner_pid == getpid());
	OK(gpushare_stat(session, "own", &info));
	CHECK(!info.attachers); /* of other processes there are none */
	record_held(there);
	FAILS(E_NOT_READY, "own", gpushare_event_query(event));
	OK(gpushare_event_close(same));
	FAILS(E_NOT_READY, "own", gpushare_event_query(again));
	OK(gpushare_event_close(again));
	OK(gpushare_event_close(event));
	OK(gpushare_close(session));
	FAILS(E_NOT_FOUND, "own", gpushare_stat(another, "own", &info));
	CHECK(driver->cuEventQuery(handle) == CU_NOT_READY);
	FAILS(E_NOT_READY, "own", gpushare_event_query(there));
	FAILS(E_TIMED_OUT, "own", gpushare_event_wait_host(there, 20));
	held_let_go();
	OK(gpushare_event_wait_host(there, 20000));
	OK(gpushare_event_close(there));
	CHECK(driver->cuEventQuery(handle) == CU_INVALID_HANDLE);
	OK(gpushare_close(another));
}

/* Closed while it is waited for: its name is free at once, it stays until nobody has it. */
static void closer(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = create(session, "e"), *next;
	cu_event handle = gpushare_event_handle(event);

	record_held(event);
	say();
	hear();
	OK(gpushare_event_close(event));
	next = create(session, "e");
	OK(gpushare_event_query(next));
	say();
	hear();
	CHECK(part_driver()->cuEventQuery(handle) == CU_NOT_READY);
	held_let_go();
	hear();
	usleep(60000); /* the registry is asked at most every 50 ms */
	OK(gpushare_event_close(create(session, "another")));
	CHECK(part_driver()->cuEventQuery(handle) == CU_INVALID_HANDLE);
	OK(gpushare_close(session));
}

static void still_waiting(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event, *next;

	hear();
	event = open_one(session, "e");
	say();
	hear();
	next = open_one(session, "e");
	CHECK(next != event);
	OK(gpushare_event_query(next));
	FAILS(E_NOT_READY, "'e'", gpushare_event_query(event));
	FAILS(E_TIMED_OUT, "'e'", gpushare_event_wait_host(event, 60));
	say();
	OK(gpushare_event_wait_host(event, 20000));
	OK(gpushare_event_close(event));
	say();
	OK(gpushare_close(session));
}

/* Its session ends with work that is not done, and with work that is. */
static void leaver(void)
{
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_event *done = create(session, "done"), *left = create(session, "left"),
			      *unlinked = create(session, "unlinked");

	OK(gpushare_event_record(done, NULL));
	record_held(left);
	OK(gpushare_event_record(unlinked, held_stream()));
	say();
	hear();
	OK(gpushare_unlink(other, "unlinked")); /* which is nothing to who has it */
	say();
	hear();
	OK(gpushare_close(session));
	say();
	hear();
	held_let_go();
	OK(gpushare_close(other));
}

static void left_behind(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *done, *left, *unlinked;
	long long began;

	hear();
	done = open_one(session, "done");
	left = open_one(session, "left");
	unlinked = open_one(session, "unlinked");
	say();
	hear();
	FAILS(E_NOT_READY, "", gpushare_event_query(unlinked));
	FAILS(E_TIMED_OUT, "", gpushare_event_wait_host(unlinked, 60));
	say();
	began = raw_now_ms();
	FAILS(E_OWNER_GONE, "'left' was recorded", gpushare_event_wait_host(left, 20000));
	CHECK(raw_now_ms() - began < 1000 + raw_slack_ms());
	hear();
	FAILS(E_OWNER_GONE, "withdrew", gpushare_event_query(left));
	FAILS(E_OWNER_GONE, "left", gpushare_event_wait(left, NULL));
	FAILS(E_OWNER_GONE, "unlinked", gpushare_event_query(unlinked));
	FAILS(E_OWNER_GONE, "unlinked", gpushare_event_wait_host(unlinked, -1));
	OK(gpushare_event_query(done));
	OK(gpushare_event_wait(done, NULL));
	OK(gpushare_event_wait_host(done, 0));
	say();
	OK(gpushare_close(session));
}

/* The owner of a name that is asked for later; then a registry that ends between. */
static void restarter(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event;
	struct gpushare_info before, now;

	hear();
	usleep(100000);
	event = create(session, "late");
	OK(gpushare_stat(session, "late", &before));
	record_held(event);
	say();
	hear();
	stage_end_registry();
	OK(gpushare_stat(session, "late", &now));
	CHECK(now.generation == before.generation && now.backing == GPUSHARE_BACKING_EVENT);
	say();
	hear();
	held_let_go();
	hear();
	OK(gpushare_close(session));
}

static void waiter(void)
{
	static const struct gpushare_event_options shortly = {.wait_ms = 50};
	struct gpushare_event *const untouched = (struct gpushare_event *)(uintptr_t)16;
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = untouched, *again;

	FAILS(E_TIMED_OUT, "late", gpushare_event_open(session, "late", &shortly, &event));
	FAILS(E_NOT_FOUND, "late", gpushare_event_open(session, "late", NULL, &event));
	CHECK(event == untouched);
	say();
	event = open_one(session, "late");
	hear();
	say();
	hear();
	FAILS(E_NOT_READY, "", gpushare_event_query(event));
	FAILS(E_TIMED_OUT, "", gpushare_event_wait_host(event, 1200)); /* the new one is asked */
	again = open_one(session, "late");
	CHECK(again == event);
	OK(gpushare_event_close(again));
	say();
	OK(gpushare_event_wait_host(event, 20000));
	OK(gpushare_event_close(event));
	OK(gpushare_close(session));
	say();
}

#define THREADS 4
#define ROUNDS 100

static struct gpushare_session *shared_session;

/* Opens it, works with it and closes it, as the others do at that time; and one of its own. */
static void *work(void *name)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct gpushare_event *event = open_one(shared_session, "many");
		struct gpushare_event *mine = create(shared_session, name), *same;

		OK(gpushare_event_record(event, NULL));
		OK(gpushare_event_wait(event, NULL));
		OK(gpushare_event_wait_host(event, 20000));
		same = open_one(shared_session, name);
		OK(gpushare_event_record(same, NULL));
		OK(gpushare_event_close(mine));
		OK(gpushare_event_wait_host(same, 20000));
		OK(gpushare_event_close(same));
		OK(gpushare_event_close(event));
	}
	return NULL;
}

static void keeper(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_info info;

	create(session, "many");
	say();
	hear();
	OK(gpushare_stat(session, "many", &info));
	CHECK(!info.attachers);
	OK(gpushare_close(session));
}

static void threads(void)
{
	static char names[THREADS][2] = {"a", "b", "c", "d"};
	pthread_t thread[THREADS];

	hear();
	shared_session = part_session();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, work, names[i]));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	say();
	OK(gpushare_close(shared_session));
}

STAGE_MAIN(SCENE(owner, follower), SCENE(own), SCENE(closer, still_waiting),
	   SCENE(leaver, left_behind), SCENE(restarter, waiter, stage_needs_autostart),
	   SCENE(keeper, threads))
