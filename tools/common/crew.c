/* SPDX-License-Identifier: MIT */
#include "crew.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

struct crew {
	pthread_mutex_t lock;
	pthread_cond_t begun, ended;
	void (*work)(void *user, size_t piece);
	void *user;
	size_t next, pieces; /* of the job; no thread has taken those from `next` on */
	size_t busy;	     /* number of pieces that threads are working on */
	bool leave;
	int count;
	pthread_t threads[CREW_MAX];
};

/* Work on pieces until all are taken. The caller holds the lock, which is released during each
 * work(). */
static void crew_work(struct crew *crew)
{
	while (crew->next < crew->pieces) {
		size_t piece = crew->next++;

		crew->busy++;
		pthread_mutex_unlock(&crew->lock);
		crew->work(crew->user, piece);
		pthread_mutex_lock(&crew->lock);
		crew->busy--;
	}
	if (!crew->busy)
		pthread_cond_signal(&crew->ended);
}

static void *crew_thread(void *argument)
{
	struct crew *crew = argument;

	pthread_mutex_lock(&crew->lock);
	while (!crew->leave) {
		if (crew->next < crew->pieces)
			crew_work(crew);
		else
			pthread_cond_wait(&crew->begun, &crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

struct crew *crew_new(int threads)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	sigset_t all, before;

	if (!crew)
		return NULL;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->begun, NULL);
	pthread_cond_init(&crew->ended, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (crew->count < threads && crew->count < CREW_MAX &&
	       !pthread_create(&crew->threads[crew->count], NULL, crew_thread, crew))
		crew->count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return crew;
}

void crew_free(struct crew *crew)
{
	if (!crew)
		return;
	pthread_mutex_lock(&crew->lock);
	crew->leave = true;
	pthread_cond_broadcast(&crew->begun);
	pthread_mutex_unlock(&crew->lock);
	for (int i = 0; i < crew->count; i++)
		pthread_join(crew->threads[i], NULL);
	pthread_cond_destroy(&crew->ended);
	pthread_cond_destroy(&crew->begun);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}

void crew_start(struct crew *crew, void (*work)(void *user, size_t piece), void *user,
		size_t pieces)
{
	pthread_mutex_lock(&crew->lock);
	crew->work = work;
	crew->user = user;
	crew->next = 0;
	crew->pieces = pieces;
	pthread_cond_broadcast(&crew->begun);
	pthread_mutex_unlock(&crew->lock);
}

void crew_wait(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew_work(crew);
	while (crew->busy)
		pthread_cond_wait(&crew->ended, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

int crew_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}
