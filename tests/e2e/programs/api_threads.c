// SPDX-License-Identifier: MIT
/*
 * Threads of one session. `api_threads cancel` cancels a thread that waits for the registry.
 * `api_threads watch` cancels a thread that waits for a notice without a time limit. `api_threads
 * order TURNS`: two threads join and leave at the same time, and TURNS buffers are published for
 * the first time by three threads at once; prints how many calls failed. `api_threads attach NAME
 * TURNS`: six threads attach, read, map and detach that buffer, in a session of their own and in
 * one that they share.
 */
#include <gpushare.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURNS_MAX 1024

static struct gpushare_session *session;
static _Atomic int waiting; /* id of the thread to cancel; 0: it isn't ready */

static void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "api_threads: %s: %s\n", what, gpushare_explain());
	exit(1);
}

static int ask(void)
{
	struct gpushare_info info;

	return gpushare_stat(session, "nobody", &info);
}

/* A call must restore the caller's cancel state, and the thread must be cancelled only after it. */
static void *ask_on(void *out_answer)
{
	int state = -1;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	(void)gpushare_open(NULL, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	must(state == PTHREAD_CANCEL_DISABLE, "a state that was not restored");
	waiting = (int)syscall(SYS_gettid);
	*(int *)out_answer = ask();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	must(state == PTHREAD_CANCEL_ENABLE, "a state that was not restored");
	pthread_testcancel();
	return NULL;
}

/* Return whether the thread sleeps in poll() or ppoll(). */
static int is_polling(int thread)
{
	char path[64], what[32] = "";
	FILE *file;
	long call = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	file = fopen(path, "r");
	if (file && fgets(what, sizeof(what), file) && *what != 'r')
		call = strtol(what, NULL, 10);
	if (file)
		fclose(file);
#ifdef SYS_poll
	if (call == SYS_poll)
		return 1;
#endif
	return call == SYS_ppoll;
}

static void *watch_on(void *unused)
{
	struct gpushare_notice notice;
	struct gpushare_watch *watch;

	must(!gpushare_watch(session, NULL, &watch), "gpushare_watch");
	waiting = (int)syscall(SYS_gettid);
	(void)gpushare_watch_next(watch, -1, &notice);
	return NULL;
}

/* Cancel a thread once it waits in its call. */
static void cancel_in(void *(*call)(void *), void *out_answer)
{
	pthread_t thread;
	void *result = NULL;

	must(!pthread_create(&thread, NULL, call, out_answer), "pthread_create");
	while (!waiting || !is_polling(waiting))
		sched_yield();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	must(result == PTHREAD_CANCELED, "a thread that was not cancelled");
	printf("cancelled\n");
}

#define PUBLISHERS 3
#define READERS 6

static pthread_barrier_t together;
static struct gpushare_buffer *buffers[TURNS_MAX];
static int turns;
static _Atomic int failed;

static void *join_each(void *unused)
{
	for (int i = 0; i < turns; i++) {
		pthread_barrier_wait(&together);
		if (gpushare_join(buffers[0], NULL))
			must(strstr(gpushare_explain(), "another thread has just left") != NULL,
			     "join");
		pthread_barrier_wait(&together);
	}
	return NULL;
}

/* A join and a leave run at the same time. Whichever takes effect last: a reclaim waits for this
 * process exactly if it is a consumer then. */
static void *leave_each(void *unused)
{
	struct gpushare_buffer *buffer = buffers[0];
	uint64_t number;

	for (int i = 0; i < turns; i++) {
		int consumes, status;

		must(!gpushare_join(buffer, NULL), "join");
		pthread_barrier_wait(&together);
		must(!gpushare_leave(buffer), "leave");
		pthread_barrier_wait(&together);
		must(!gpushare_publish_host(buffer, &number), "publish");
		consumes = !gpushare_release_host(buffer, 0);
		status = gpushare_reclaim_host(buffer, number, 0);
		must(status == (consumes ? GPUSHARE_E_TIMED_OUT : GPUSHARE_OK), "reclaim");
		must(!gpushare_leave(buffer), "leave");
		must(!gpushare_reclaim_host(buffer, number, 0), "nobody consumes it");
	}
	return NULL;
}

static void *publish_each(void *unused)
{
	for (int i = 0; i < turns; i++) {
		pthread_barrier_wait(&together);
		if (gpushare_publish(buffers[i], NULL, NULL))
			failed++;
	}
	return NULL;
}

static void run_at_once(unsigned int count, void *(*const runs[])(void *))
{
	pthread_t threads[READERS];

	pthread_barrier_init(&together, NULL, count);
	for (unsigned int i = 0; i < count; i++)
		must(!pthread_create(&threads[i], NULL, runs[i], NULL), "pthread_create");
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void order_at_once(void)
{
	void *(*const consumers[])(void *) = {join_each, leave_each};
	void *(*const publishers[])(void *) = {publish_each, publish_each, publish_each};

	must(turns > 0 && turns <= TURNS_MAX, "turns");
	for (int i = 0; i < turns; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		must(!gpushare_alloc(session, name, -1, 4096, &buffers[i]), "alloc");
	}
	run_at_once(2, consumers);
	must(!gpushare_free(buffers[0]) && !gpushare_alloc(session, "n0", -1, 4096, buffers),
	     "alloc");
	run_at_once(PUBLISHERS, publishers);
	for (int i = 1; i < turns; i++)
		must(!gpushare_acquire_host(buffers[i], PUBLISHERS, 5000, NULL), "acquire");
	must(!gpushare_acquire_host(buffers[0], (uint64_t)(PUBLISHERS - failed), 5000, NULL),
	     "acquire");
	printf("%d failed\n", failed);
}

static const char *shared_name;

/* Read the buffer's first byte, 7, by a copy and, if the buffer can be mapped, by the CPU. */
static void read_one(struct gpushare_buffer *buffer)
{
	struct gpushare_map *map;
	char byte = 0;

	must(!gpushare_copy_from(buffer, 0, &byte, 1) && byte == 7, "copy_from");
	if (gpushare_map(buffer, 0, 1, GPUSHARE_READ, &map))
		return;
	must(*(volatile char *)gpushare_map_data(map) == 7, "map");
	must(!gpushare_unmap(map), "unmap");
}

/* Attach it twice by one call. */
static void attach_pair(void)
{
	const char *const names[2] = {shared_name, shared_name};
	struct gpushare_buffer *pair[2];

	must(!gpushare_attach_many(session, names, 2, NULL, pair), "attach_many");
	must(pair[0] == pair[1], "one buffer");
	must(!gpushare_detach(pair[0]), "detach");
	read_one(pair[1]);
	must(!gpushare_detach(pair[1]), "detach");
}

static void *attach_each(void *unused)
{
	struct gpushare_session *sessions[2] = {session};
	struct gpushare_buffer *both[2];

	must(!gpushare_open(NULL, &sessions[1]), "open");
	for (int turn = 0; turn < turns; turn++) {
		for (int i = 0; i < 2; i++)
			must(!gpushare_attach(sessions[i], shared_name, NULL, &both[i]), "attach");
		must(!gpushare_detach(both[turn % 2]), "detach");
		read_one(both[1 - turn % 2]);
		must(!gpushare_detach(both[1 - turn % 2]), "detach");
		attach_pair();
	}
	must(!gpushare_close(sessions[1]), "close");
	return NULL;
}

static void attach_at_once(const char *name)
{
	void *(*const readers[READERS])(void *) = {attach_each, attach_each, attach_each,
						   attach_each, attach_each, attach_each};
	struct gpushare_info info;

	shared_name = name;
	run_at_once(READERS, readers);
	must(!gpushare_stat(session, name, &info), "stat");
	printf("%u attached\n", info.attachers);
}

int main(int count, char **argument)
{
	int answer = 1;

	must(count > 1, "what is to be done");
	turns = count > 2 ? atoi(argument[count - 1]) : 0;
	must(!gpushare_open(NULL, &session), "gpushare_open");
	printf("open\n");
	fflush(stdout);
	getchar(); /* for cancel, the test stops the registry before this returns */
	if (!strcmp(argument[1], "order")) {
		order_at_once();
	} else if (!strcmp(argument[1], "attach")) {
		attach_at_once(argument[2]);
	} else if (!strcmp(argument[1], "watch")) {
		cancel_in(watch_on, NULL);
	} else {
		cancel_in(ask_on, &answer);
		printf("its answer: %d\nanother: %d\n", answer, ask());
	}
	return 0;
}
