/* SPDX-License-Identifier: MIT */
/*
 * Times allocations and frees. Linked with each way_*.c, it is a separate program:
 *   way_X hold                  allocate one buffer, print "held", and end when stdin ends
 *   way_X steps [LIBRARY]       keep one buffer, then print a line for every kind of allocation:
 *                               CALL INSTRUCTIONS, for a pair, counted in a single-stepped child.
 *                               Then "unloaded INSTRUCTIONS": ten pairs of the first kind after
 *                               LIBRARY was unloaded
 *   way_X [THREADS MS]...       keep one buffer, then make every kind of allocation in THREADS
 *                               threads for MS milliseconds, with lines
 *                               CALL THREADS alloc|free|pair CPU_NS WALL_NS BATCHES
 * The times are for one call (for "pair": both calls): medians over the batches of all threads, of
 * the thread's CPU time and of wall-clock time.
 */
#include "calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH 500	  /* calls */
#define BATCHES_LEAST 20  /* for each thread */
#define BATCHES_MOST 2000 /* for each thread */
#define WARM_UP 3	  /* batches */
#define THREADS_MOST 64

enum phase { ALLOC, RELEASE, PAIR, PHASES };
static const char *const phase_names[PHASES] = {"alloc", "free", "pair"};

struct stamp {
	double cpu_ns, wall_ns;
};

struct worker {
	pthread_t thread;
	const struct calls *calls;
	double limit_ns;
	size_t batches;
	int result;
	struct stamp took[PHASES][BATCHES_MOST];
};

static pthread_barrier_t line;

static double clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static struct stamp stamp_now(void)
{
	return (struct stamp){clock_ns(CLOCK_THREAD_CPUTIME_ID), clock_ns(CLOCK_MONOTONIC)};
}

static struct stamp stamp_per_call(struct stamp from, struct stamp to)
{
	return (struct stamp){(to.cpu_ns - from.cpu_ns) / BATCH,
			      (to.wall_ns - from.wall_ns) / BATCH};
}

static int batch(const struct calls *calls, struct stamp took[PHASES])
{
	struct stamp at[PHASES + 1];
	uint64_t pointers[BATCH];
	int result = 0;

	at[0] = stamp_now();
	for (int i = 0; i < BATCH; i++)
		result |= calls->alloc(&pointers[i]);
	at[1] = stamp_now();
	for (int i = 0; i < BATCH; i++)
		result |= calls->release(pointers[i]);
	at[2] = stamp_now();
	for (int i = 0; i < BATCH; i++) {
		result |= calls->alloc(&pointers[0]);
		result |= calls->release(pointers[0]);
	}
	at[3] = stamp_now();
	for (int phase = 0; phase < PHASES; phase++)
		took[phase] = stamp_per_call(at[phase], at[phase + 1]);
	return result;
}

static void *work(void *user)
{
	struct worker *worker = user;
	struct stamp took[PHASES];
	double until;

	pthread_barrier_wait(&line);
	for (int i = 0; i < WARM_UP; i++)
		worker->result |= batch(worker->calls, took);
	until = clock_ns(CLOCK_MONOTONIC) + worker->limit_ns;
	while (worker->batches < BATCHES_MOST && !worker->result &&
	       (worker->batches < BATCHES_LEAST || clock_ns(CLOCK_MONOTONIC) < until)) {
		worker->result = batch(worker->calls, took);
		for (int phase = 0; phase < PHASES; phase++)
			worker->took[phase][worker->batches] = took[phase];
		worker->batches++;
	}
	/* no thread ends while another one is measured */
	pthread_barrier_wait(&line);
	return NULL;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *numbers, size_t count)
{
	qsort(numbers, count, sizeof(*numbers), compare);
	return numbers[count / 2];
}

static bool report(struct worker **workers, unsigned int threads, enum phase phase)
{
	size_t room = (size_t)threads * BATCHES_MOST, count = 0;
	double *cpu_ns = malloc(room * sizeof(*cpu_ns)), *wall_ns = malloc(room * sizeof(*wall_ns));

	for (unsigned int i = 0; cpu_ns && wall_ns && i < threads; i++) {
		for (size_t k = 0; k < workers[i]->batches; k++, count++) {
			cpu_ns[count] = workers[i]->took[phase][k].cpu_ns;
			wall_ns[count] = workers[i]->took[phase][k].wall_ns;
		}
	}
	if (count)
		printf("%s %u %s %.3f %.3f %zu\n", workers[0]->calls->name, threads,
		       phase_names[phase], median(cpu_ns, count), median(wall_ns, count), count);
	free(cpu_ns);
	free(wall_ns);
	return count != 0;
}

/* Return 0, the first error of a call, or -1. */
static int measure(const struct calls *calls, unsigned int threads, double limit_ms)
{
	struct worker *workers[THREADS_MOST];
	int result = 0;

	pthread_barrier_init(&line, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		workers[i] = calloc(1, sizeof(**workers));
		if (!workers[i])
			exit(1);
		workers[i]->calls = calls;
		workers[i]->limit_ns = limit_ms * 1e6;
		if (pthread_create(&workers[i]->thread, NULL, work, workers[i]))
			exit(1);
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(workers[i]->thread, NULL);
		result |= workers[i]->result;
	}
	for (enum phase phase = 0; phase < PHASES && !result; phase++)
		result = report(workers, threads, phase) ? 0 : -1;
	for (unsigned int i = 0; i < threads; i++)
		free(workers[i]);
	pthread_barrier_destroy(&line);
	return result;
}

static int hold(void)
{
	char byte;

	puts("held");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	return 0;
}

int main(int argc, char **argv)
{
	const struct calls *calls = way_find();
	uint64_t first;

	if (calls && argc >= 2 && !strcmp(argv[1], "steps"))
		return calls_step(calls, argc == 3 ? argv[2] : NULL);
	if (!calls || calls->alloc(&first)) {
		fprintf(stderr, "%s: the driver's calls were not found, or the first failed\n",
			argv[0]);
		return 1;
	}
	if (argc == 2 && !strcmp(argv[1], "hold"))
		return hold();
	for (; calls->name; calls++) {
		for (int i = 1; i + 1 < argc; i += 2) {
			unsigned int threads = (unsigned int)atoi(argv[i]);
			int result;

			if (!threads || threads > THREADS_MOST)
				return 2;
			result = measure(calls, threads, atof(argv[i + 1]));
			if (result) {
				fprintf(stderr, "%s: %s: error %d\n", argv[0], calls->name, result);
				return 1;
			}
		}
	}
	return 0;
}
