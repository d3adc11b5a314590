/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_CREW_H
#define GPUSHARE_TOOLS_CREW_H
/* A pool of threads that work together on one job at a time. The threads block all signals. */
#include <stdbool.h>
#include <stddef.h>

struct crew;

#define CREW_MAX 16

/* Start `threads` threads, at most CREW_MAX. Even if none can be created, all jobs get done,
 * because crew_wait() works on them too. NULL: no memory. */
struct crew *crew_new(int threads);
void crew_free(struct crew *crew); /* NULL is allowed; no job may be running */
/* Start a job: the threads call work(user, piece) once for each piece from 0 to pieces - 1, in any
 * order. Call crew_wait() for the previous job first. */
void crew_start(struct crew *crew, void (*work)(void *user, size_t piece), void *user,
		size_t pieces);
/* Work on pieces in this thread too, until all pieces are done. */
void crew_wait(struct crew *crew);
/* The number of CPUs that this process may use. */
int crew_cpus(void);

#endif
