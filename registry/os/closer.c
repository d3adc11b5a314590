/* SPDX-License-Identifier: MIT */
#include "os/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct closer {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int *fds;
	size_t count, room;
	bool ending;
};

static void *run(void *argument)
{
	struct closer *closer = argument;

	pthread_mutex_lock(&closer->lock);
	while (closer->count || !closer->ending) {
		int fd;

		if (!closer->count) {
			pthread_cond_wait(&closer->changed, &closer->lock);
			continue;
		}
		fd = closer->fds[--closer->count];
		pthread_mutex_unlock(&closer->lock);
		close(fd);
		pthread_mutex_lock(&closer->lock);
	}
	pthread_mutex_unlock(&closer->lock);
	pthread_mutex_destroy(&closer->lock);
	pthread_cond_destroy(&closer->changed);
	free(closer->fds);
	free(closer);
	return NULL;
}

static struct closer *closer_open(void)
{
	struct closer *closer = calloc(1, sizeof(*closer));
	pthread_t thread;

	if (!closer)
		return NULL;
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->changed, NULL);
	if (!pthread_create(&thread, NULL, run, closer)) {
		pthread_detach(thread);
		return closer;
	}
	free(closer);
	return NULL;
}

struct closer *closer_at(struct closer **place)
{
	if (!*place)
		*place = closer_open();
	return *place;
}

static bool closer_push(struct closer *closer, int fd)
{
	if (closer->count == closer->room) {
		size_t room = closer->room ? closer->room * 2 : 64;
		int *fds = realloc(closer->fds, room * sizeof(*fds));

		if (!fds)
			return false;
		closer->fds = fds;
		closer->room = room;
	}
	closer->fds[closer->count++] = fd;
	return true;
}

void closer_add(struct closer *closer, int fd)
{
	bool pushed = false;

	if (closer) {
		pthread_mutex_lock(&closer->lock);
		pushed = closer_push(closer, fd);
		pthread_cond_broadcast(&closer->changed);
		pthread_mutex_unlock(&closer->lock);
	}
	if (!pushed)
		close(fd);
}

size_t closer_count(struct closer *closer)
{
	size_t count;

	if (!closer)
		return 0;
	pthread_mutex_lock(&closer->lock);
	count = closer->count;
	pthread_mutex_unlock(&closer->lock);
	return count;
}

void closer_end(struct closer *closer)
{
	if (!closer)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->ending = true;
	pthread_cond_broadcast(&closer->changed);
	pthread_mutex_unlock(&closer->lock);
}
