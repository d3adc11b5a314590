/* SPDX-License-Identifier: MIT */
#include "os/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct closer {
	pthread_mutex_t lock;
	pthread_cond_t added;
	int *fds;
	size_t count, room;
};

static void *run(void *argument)
{
	struct closer *closer = argument;

	pthread_mutex_lock(&closer->lock);
	for (;;) {
		int fd;

		while (!closer->count)
			pthread_cond_wait(&closer->added, &closer->lock);
		fd = closer->fds[--closer->count];
		pthread_mutex_unlock(&closer->lock);
		close(fd);
		pthread_mutex_lock(&closer->lock);
	}
	return NULL;
}

static struct closer *closer_open(void)
{
	struct closer *closer = malloc(sizeof(*closer));
	pthread_t thread;

	if (!closer)
		return NULL;
	*closer = (struct closer){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0};
	if (!pthread_create(&thread, NULL, run, closer)) {
		pthread_detach(thread);
		return closer;
	}
	free(closer);
	return NULL;
}

static bool push(struct closer *closer, int fd)
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

void closer_add(struct closer **place, int fd)
{
	static struct closer *shared;
	struct closer *closer;
	bool pushed = false;

	if (!place)
		place = &shared;
	if (!*place)
		*place = closer_open();
	closer = *place;
	if (closer) {
		pthread_mutex_lock(&closer->lock);
		pushed = push(closer, fd);
		pthread_cond_signal(&closer->added);
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
