/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_GPU_MANY_H
#define TESTS_E2E_GPU_MANY_H
/* Verbs that allocate by every way, allocate from many threads, and compare addresses. */
#include <stdatomic.h>

#include "gpu_script.h"
#include "script_tally.h"

#define MANY_THREADS 64
#define MANY_POINTERS 8192

/* make=SLOT,WAY,SIZE[,STREAM] */
VERB(make, 3, 4)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);
	int code;

	slot->size = script_number(argument[2]);
	snprintf(slot->way, sizeof(slot->way), "%s", argument[1]);
	errno = GPU_ERRNO;
	code = gpu.make(slot, argument[1], count > 3 ? argument[3][0] : '\0');
	gpu_say("make", argument[0], code);
}

/* drop=SLOT[,WAY[,STREAM]]: free it by the way of its allocation, or by WAY */
VERB(drop, 1, 3)
{
	struct gpu_slot *slot = gpu_slot(argument[0]);

	errno = GPU_ERRNO;
	gpu_say(
	    "drop", argument[0],
	    gpu.drop(slot, count > 1 ? argument[1] : slot->way, count > 2 ? argument[2][0] : '\0'));
}

/* at=SLOT,FROM,OFFSET: let SLOT point into FROM's memory */
VERB(at, 3, 3)
{
	*gpu_slot(argument[0]) = *gpu_slot(argument[1]);
	gpu_slot(argument[0])->pointer += script_number(argument[2]);
}

/* foreign=SLOT,ADDRESS: let SLOT be a pointer that no allocation returned */
VERB(foreign, 2, 2)
{
	gpu_slot(argument[0])->pointer = script_number(argument[1]);
}

/* again=SLOT,NEW,TRIES: allocate NEW by the way and size of SLOT, which has been freed. Free NEW
 * and try again, TRIES times at most, until it has SLOT's address. */
VERB(again, 3, 3)
{
	struct gpu_slot *was = gpu_slot(argument[0]), *now = gpu_slot(argument[1]);
	uint64_t tries = script_number(argument[2]);

	for (*now = *was; tries--; *now = *was) {
		if (gpu.make(now, was->way, '\0'))
			break;
		if (now->pointer == was->pointer) {
			printf("again %s: the same address\n", argument[0]);
			return;
		}
		gpu.drop(now, was->way, '\0');
	}
	printf("again %s: not the same address\n", argument[0]);
}

/* apart=SLOT,SLOT: print whether they are in different 2 MiB blocks */
VERB(apart, 2, 2)
{
	printf("apart %s %s: %s\n", argument[0], argument[1],
	       gpu_slot(argument[0])->pointer >> 21 == gpu_slot(argument[1])->pointer >> 21
		   ? "no"
		   : "yes");
}

static _Atomic uint64_t many_pointers[MANY_POINTERS];
static atomic_int many_failures;
static atomic_bool many_stop;
static int many_each; /* allocations or rounds per thread */
static size_t many_size;

static void many_run(int threads, void *(*run)(void *number))
{
	pthread_t thread[MANY_THREADS];

	if (threads > MANY_THREADS)
		script_stop("too many threads");
	atomic_store(&many_failures, 0);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, run, (void *)(intptr_t)i))
			script_stop("pthread_create failed");
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static void *many_hoard(void *number)
{
	for (int i = 0; i < many_each; i++) {
		uint64_t pointer = 0;

		if (gpu.alloc(&pointer, many_size))
			atomic_fetch_add(&many_failures, 1);
		atomic_store(&many_pointers[(intptr_t)number * many_each + i], pointer);
	}
	return NULL;
}

/* hoard=THREADS,COUNT,SIZE: each thread makes COUNT allocations and keeps them */
VERB(hoard, 3, 3)
{
	many_each = (int)script_number(argument[1]);
	many_size = script_number(argument[2]);
	if (many_each * (int)script_number(argument[0]) > MANY_POINTERS)
		script_stop("too many allocations");
	many_run((int)script_number(argument[0]), many_hoard);
	printf("hoard: %d failed\n", atomic_load(&many_failures));
}

/* release: free what hoard= and churn= have kept */
VERB(release, 0, 0)
{
	int failed = 0;

	for (int i = 0; i < MANY_POINTERS; i++) {
		uint64_t pointer = atomic_exchange(&many_pointers[i], 0);

		failed += pointer && gpu.free(pointer);
	}
	printf("release: %d failed\n", failed);
}

static void *many_churn(void *number)
{
	unsigned int seed = (unsigned int)(intptr_t)number * 7919 + 1;

	if (gpu.device(0)) /* its first call may be a free, which needs a context */
		atomic_fetch_add(&many_failures, 1);
	for (int i = 0; i < many_each; i++) {
		_Atomic uint64_t *place = &many_pointers[rand_r(&seed) % 256];
		uint64_t pointer = atomic_exchange(place, 0), made = 0;

		/* Any thread frees what it finds in a place, or allocates for an empty place. */
		if (pointer) {
			if (gpu.free(pointer))
				atomic_fetch_add(&many_failures, 1);
			continue;
		}
		if (gpu.alloc(&made, many_size)) {
			atomic_fetch_add(&many_failures, 1);
			continue;
		}
		pointer = atomic_exchange(place, made);
		if (pointer && gpu.free(pointer))
			atomic_fetch_add(&many_failures, 1);
	}
	return NULL;
}

/* churn=THREADS,ROUNDS,SIZE,FILE: random allocations and frees; write to FILE how many are left */
VERB(churn, 4, 4)
{
	char text[16];
	int live = 0;

	many_each = (int)script_number(argument[1]);
	many_size = script_number(argument[2]);
	many_run((int)script_number(argument[0]), many_churn);
	for (int i = 0; i < MANY_POINTERS; i++)
		live += atomic_load(&many_pointers[i]) != 0;
	script_save(argument[3], text, (size_t)snprintf(text, sizeof(text), "%d", live));
	printf("churn: %d failed\n", atomic_load(&many_failures));
}

static void *many_storm(void *unused)
{
	while (!atomic_load(&many_stop)) {
		uint64_t pointer = 0;

		if (gpu.alloc(&pointer, many_size) || gpu.free(pointer))
			atomic_fetch_add(&many_failures, 1);
	}
	return NULL;
}

/* The child of a busy parent allocates and frees: both may fail, but must not hang (alarm). It ends
 * by exit() or by _exit(). */
static void many_storm_child(int number, uint64_t inherited)
{
	uint64_t pointer = 0;

	alarm(5);
	gpu.alloc(&pointer, many_size);
	gpu.free(inherited);
	if (number % 2)
		exit(0);
	_exit(0);
}

/* storm=CHILDREN,SIZE: one thread allocates and frees in a loop while the other forks children */
VERB(storm, 2, 2)
{
	int children = (int)script_number(argument[0]), bad = 0, late = 0, status;
	uint64_t kept = 0;
	pthread_t thread;

	many_size = script_number(argument[1]);
	atomic_store(&many_stop, false);
	atomic_store(&many_failures, 0);
	if (gpu.alloc(&kept, many_size) || pthread_create(&thread, NULL, many_storm, NULL))
		script_stop("storm: can't begin");
	for (int i = 0; i < children; i++) {
		long began_ms = script_now_ms();
		pid_t child = fork();

		if (!child)
			many_storm_child(i, kept);
		if (waitpid(child, &status, 0) != child || status)
			bad++;
		late += script_now_ms() - began_ms > 1000;
	}
	atomic_store(&many_stop, true);
	pthread_join(thread, NULL);
	printf("storm: %d children ended badly, %d late, %d calls failed\n", bad, late,
	       atomic_load(&many_failures));
}

struct many_pace {
	struct timespec began;
	long switches;
	long waited;
	double all_us, most_us, waited_us;
};

static long many_switches(void)
{
	struct rusage used;

	if (getrusage(RUSAGE_THREAD, &used))
		script_stop("getrusage failed");
	return used.ru_nvcsw;
}

static void many_pace_begin(struct many_pace *pace)
{
	pace->switches = many_switches();
	clock_gettime(CLOCK_MONOTONIC, &pace->began);
}

/* A voluntary context switch shows that the call waited for another process. Other load on the
 * machine causes only involuntary ones. */
static void many_pace_end(struct many_pace *pace)
{
	struct timespec now;
	double us;

	clock_gettime(CLOCK_MONOTONIC, &now);
	us = (double)(now.tv_sec - pace->began.tv_sec) * 1e6 +
	     (double)(now.tv_nsec - pace->began.tv_nsec) / 1e3;
	pace->all_us += us;
	if (us > pace->most_us)
		pace->most_us = us;
	if (many_switches() == pace->switches)
		return;
	pace->waited++;
	if (us > pace->waited_us)
		pace->waited_us = us;
}

/* paced=LABEL,ROUNDS,SIZE: allocate and free once per millisecond; print how many calls waited */
VERB(paced, 3, 3)
{
	struct many_pace pace = {.waited = 0};
	uint64_t rounds = script_number(argument[1]), pointer;
	size_t size = script_number(argument[2]);
	int failed = 0, result;

	for (uint64_t i = 0; i < rounds; i++) {
		many_pace_begin(&pace);
		result = gpu.alloc(&pointer, size);
		many_pace_end(&pace);
		if (!result) {
			many_pace_begin(&pace);
			result = gpu.free(pointer);
			many_pace_end(&pace);
		}
		failed += result != 0;
		script_nap_ms(1);
	}
	printf("paced %s: %ld waited, %d failed, mean %.1f us, most %.0f us, of those that waited "
	       "%.0f us\n",
	       argument[0], pace.waited, failed, pace.all_us / (double)(2 * rounds), pace.most_us,
	       pace.waited_us);
}

/* Allocate, read the first byte, and free. The byte must equal `byte`; NULL: any. */
static void many_turn(struct tally *tally, uint64_t turn, size_t size, const char *byte)
{
	const char *call = "alloc";
	uint64_t pointer = 0;
	unsigned char first = 0;
	int code = gpu.alloc(&pointer, size);

	if (!code)
		call = "read", code = gpu.read(&first, pointer, 1);
	if (!code && byte && first != script_number(byte)) {
		tally_failed(tally, turn, "it begins with %d", first);
		return;
	}
	if (!code)
		call = "free", code = gpu.free(pointer);
	if (code)
		tally_failed(tally, turn, "%s: %d", call, code);
}

/* cycle=COUNT,SIZE[,BYTE]: COUNT times, allocate, check that the first byte is BYTE, and free */
VERB(cycle, 2, 3)
{
	struct tally tally = {0};

	for (uint64_t i = 0; i < script_number(argument[0]); i++)
		many_turn(&tally, i, script_number(argument[1]), count > 2 ? argument[2] : NULL);
	printf("cycle: %d failed\n", tally.failed);
}

#endif
