/* SPDX-License-Identifier: MIT */
#include "client_held.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#define OUT_OF_THE_WAY 256 /* above the numbers that a program's own descriptors usually have */

struct held {
	struct held *prev, *next;
	uint64_t id;
	int fd;
	dev_t device; /* device and inode show whether the program has replaced `fd` */
	ino_t inode;
};

static struct {
	pthread_mutex_t lock; /* held for a few instructions */
	struct held *first;
	uint64_t last_id;
	bool forks; /* the fork handlers are registered */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_ours(const struct held *held)
{
	struct stat is;

	return !fstat(held->fd, &is) && is.st_dev == held->device && is.st_ino == held->inode;
}

static void before_fork(void)
{
	pthread_mutex_lock(&table.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&table.lock);
}

/* The memory is the parent's: a child that keeps running must not keep it alive. */
static void in_child(void)
{
	int error = errno;
	struct held *held;

	LL_FOREACH (table.first, held) {
		if (is_ours(held))
			close(held->fd);
		held->fd = -1;
	}
	pthread_mutex_unlock(&table.lock);
	errno = error;
}

static uint64_t put_in(struct held *made)
{
	bool forks;
	uint64_t id;

	pthread_mutex_lock(&table.lock);
	forks = table.forks;
	table.forks = true;
	id = made->id = ++table.last_id;
	DL_PREPEND(table.first, made);
	pthread_mutex_unlock(&table.lock);
	if (!forks)
		pthread_atfork(before_fork, in_parent, in_child);
	return id;
}

uint64_t held_keep(int fd)
{
	int error = errno;
	struct held *made = calloc(1, sizeof(*made));
	struct stat is;

	if (!made)
		return 0;
	made->fd = fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	if (made->fd < 0)
		made->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (made->fd >= 0 && !fstat(made->fd, &is)) {
		made->device = is.st_dev;
		made->inode = is.st_ino;
		errno = error;
		return put_in(made);
	}
	if (made->fd >= 0)
		close(made->fd);
	free(made);
	errno = error;
	return 0;
}

int held_open(uint64_t held)
{
	const struct held *found;
	int fd = -1;

	pthread_mutex_lock(&table.lock);
	LL_SEARCH_SCALAR(table.first, found, id, held);
	if (found && is_ours(found))
		fd = fcntl(found->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	pthread_mutex_unlock(&table.lock);
	return fd;
}

void held_drop(uint64_t held)
{
	struct held *gone;
	int error = errno;

	if (!held)
		return;
	pthread_mutex_lock(&table.lock);
	LL_SEARCH_SCALAR(table.first, gone, id, held);
	if (gone)
		DL_DELETE(table.first, gone);
	pthread_mutex_unlock(&table.lock);
	if (gone && is_ours(gone))
		close(gone->fd);
	free(gone);
	errno = error;
}
