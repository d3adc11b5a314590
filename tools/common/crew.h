/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_CREW_H
#define GPUSHARE_TOOLS_CREW_H
/* A pool of threads that share the pieces of one job at a time. They block all signals. */
#include <stdbool.h>
#include <stddef.h>

struct crew;

#define CREW_MAX 16

/* Start `threads` threads, CREW_MAX at most. If fewer can be created, or none, the crew still
 * works: crew_wait() takes pieces too. NULL: no memory. */
struct crew *crew_new(int threads);
void crew_free(struct crew *crew); /* NULL is allowed; no job may be running */
/* Have work(user, 0) to work(user, pieces - 1) called, each by any thread and in any order. Call
 * crew_wait() for the previous job first. */
void crew_start(struct crew *crew, void (*work)(void *user, size_t piece), void *user,
		size_t pieces);
/* Work on pieces too; return when all are done. */
void crew_wait(struct crew *crew);
/* CPUs that this process may use. */
int crew_cpus(void);

#endif
