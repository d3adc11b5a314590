/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_CREW_H
#define GPUSHARE_TOOLS_CREW_H
/* A few threads that share the pieces of one job after the other. They take no signals. */
#include <stdbool.h>
#include <stddef.h>

struct crew;

#define CREW_MAX 16

/* Of `threads`, CREW_MAX at most; as many as can be made, none at all too: crew_wait() does its part.
 * NULL: no memory. */
struct crew *crew_new(int threads);
void crew_free(struct crew *crew); /* NULL is allowed; no job may be under way */
/* Have work(user, 0) to work(user, pieces - 1) called, by whom and in whatever order. The job before
 * must have been waited for. */
void crew_start(struct crew *crew, void (*work)(void *user, size_t piece), void *user,
		size_t pieces);
/* Take pieces too, until all are done. */
void crew_wait(struct crew *crew);
/* CPUs that this process may use. */
int crew_cpus(void);

#endif
