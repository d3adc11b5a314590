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

STAGE_MAIN(SCENE(leaver, left_behind), SCENE(keeper, threads))
