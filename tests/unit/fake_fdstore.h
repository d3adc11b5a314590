/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_FAKE_FDSTORE_H
#define GPUSHARE_TESTS_FAKE_FDSTORE_H
/* registry/persist/fdstore.h within one process: for the one file of a program that includes it, in place
 * of the real one. */
#include <fcntl.h>
#include <unistd.h>

#include "persist/fdstore.h"

#define FAKE_FDS 16

struct fdstore {
	struct {
		uint64_t generation; /* 0: none */
		int fd;
		bool taken;
	} left[FAKE_FDS];
};

static struct fdstore fake_fdstore;
static bool fake_fdstore_loses; /* what is put there */

static inline int fake_fdstore_count(void)
{
	int count = 0;

	for (int i = 0; i < FAKE_FDS; i++)
		count += fake_fdstore.left[i].generation != 0;
	return count;
}

struct fdstore *fdstore_open(const char *directory)
{
	assert_non_null(directory);
	return &fake_fdstore;
}

int fdstore_take(struct fdstore *store, uint64_t generation)
{
	for (int i = 0; i < FAKE_FDS; i++) {
		if (store->left[i].generation != generation)
			continue;
		store->left[i].taken = true;
		return fcntl(store->left[i].fd, F_DUPFD_CLOEXEC, 3);
	}
	return -1;
}

bool fdstore_next(const struct fdstore *store, uint64_t *generation)
{
	bool passed = !*generation;

	for (int i = 0; i < FAKE_FDS; i++) {
		if (passed && store->left[i].generation) {
			*generation = store->left[i].generation;
			return true;
		}
		passed |= store->left[i].generation == *generation;
	}
	return false;
}

void fdstore_flush(struct fdstore *store)
{
	(void)store;
}

void fdstore_drop(struct fdstore *store, uint64_t generation)
{
	for (int i = 0; i < FAKE_FDS; i++) {
		if (store->left[i].generation != generation)
			continue;
		close(store->left[i].fd);
		store->left[i].generation = 0;
	}
}

void fdstore_settle(struct fdstore *store)
{
	for (int i = 0; i < FAKE_FDS; i++) {
		if (store->left[i].generation && !store->left[i].taken)
			fdstore_drop(store, store->left[i].generation);
		store->left[i].taken = false;
	}
}

bool fdstore_put(struct fdstore *store, uint64_t generation, int fd)
{
	for (int i = 0; i < FAKE_FDS && !fake_fdstore_loses; i++) {
		if (store->left[i].generation)
			continue;
		store->left[i].generation = generation;
		store->left[i].fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		return true;
	}
	return false;
}

void fdstore_close(struct fdstore *store, bool keep)
{
	for (int i = 0; i < FAKE_FDS && !keep; i++) {
		if (store->left[i].generation)
			fdstore_drop(store, store->left[i].generation);
	}
}

#endif
