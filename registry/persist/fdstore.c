/* SPDX-License-Identifier: MIT */
#include "persist/fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/closer.h"
#include "os/hash.h"
#include "os/log.h"
#include "persist/keeper.h"
#include "persist/notify.h"

#define AGAIN_MS 20	 /* when the other side was too busy */
#define START_MS 1000	 /* between two starts of a keeper */
#define PATIENCE_MS 1000 /* for an answer, and at the end */

struct item {
	UT_hash_handle hh;
	uint64_t generation;
	int fd;		    /* -1: it is to be removed from the other side, and nothing follows */
	bool own;	    /* the descriptor is this store's: nobody took it so far */
	struct item **list; /* the store's puts or removes; NULL: nothing is owed */
	struct item *prev, *next;
};

struct fdstore {
	char directory[GPUSHARE_PATH_MAX];
	struct stat folder;		     /* it may be removed, and made again for others */
	bool manager;			     /* the service manager is the store, and no keeper */
	int keeper;			     /* the connection; -1: none */
	bool said;			     /* that there can't be a keeper */
	struct item *items, *puts, *removes; /* all; owed to the other side */
	uint64_t count;			     /* with a descriptor */
	int64_t start_ns;		     /* no keeper is started before then */
	struct closer *closer;		     /* opened when there is something to close */
};

static struct item *item_find(const struct fdstore *store, uint64_t generation)
{
	struct item *item;

	HASH_FIND(hh, store->items, &generation, sizeof(generation), item);
	return item;
}

static struct item *item_new(struct fdstore *store, uint64_t generation)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		return NULL;
	item->generation = generation;
	item->fd = -1;
	HASH_ADD(hh, store->items, generation, sizeof(generation), item);
	if (item->hh.tbl)
		return item;
	free(item);
	return NULL;
}

/* What is owed of it from now on; an item of which nothing is left goes. */
static void item_owe(struct fdstore *store, struct item *item, struct item **list)
{
	if (item->list)
		DL_DELETE(*item->list, item);
	item->list = list;
	if (list)
		DL_APPEND(*list, item);
	if (list || item->fd >= 0)
		return;
	HASH_DEL(store->items, item);
	free(item);
}

static void close_soon(struct fdstore *store, int fd)
{
	if (!store->closer)
		store->closer = closer_open();
	closer_add(store->closer, fd);
}

/* One that the other side never had needs no removal. */
static void item_drop(struct fdstore *store, struct item *item)
{
	if (item->fd < 0)
		return;
	if (item->own)
		close_soon(store, item->fd);
	item->fd = -1;
	store->count--;
	item_owe(store, item, item->list == &store->puts ? NULL : &store->removes);
}

/* What a predecessor left. Two of one name are one. */
static void inherit(struct fdstore *store, uint64_t generation, int fd)
{
	struct item *item = item_find(store, generation) ? NULL : item_new(store, generation);

	if (!item) {
		close_soon(store, fd);
		return;
	}
	item->fd = fd;
	item->own = true;
	store->count++;
	if (store->keeper >= 0 && store->count <= notify_store_size())
		item_owe(store, item, &store->puts); /* from the keeper to the service manager */
}

static int send_one(const struct fdstore *store, const char *verb, uint64_t generation, int fd)
{
	char message[NOTIFY_MESSAGE];
	size_t size = notify_write(message, verb, generation), count = fd >= 0;

	return store->manager ? notify_send(message, size, &fd, count)
			      : fds_send_bytes(store->keeper, message, size, &fd, count);
}

/* All of the store's puts or removes, until the other side is too busy. */
static int send_list(struct fdstore *store, struct item **list)
{
	bool removes = list == &store->removes;
	const char *verb = removes ? NOTIFY_REMOVE : NOTIFY_STORE;
	int status = GPUSHARE_OK;

	while (!status && *list) {
		struct item *item = *list;

		if (!removes && fcntl(item->fd, F_GETFD) < 0)
			log_line("generation %" PRIu64 " was closed", item->generation);
		else
			status = send_one(store, verb, item->generation, removes ? -1 : item->fd);
		if (!status)
			item_owe(store, item, removes && item->fd >= 0 ? &store->puts : NULL);
	}
	return status;
}

static bool has_folder(const struct fdstore *store)
{
	struct stat is;

	return !stat(store->directory, &is) && is.st_ino == store->folder.st_ino &&
	       is.st_dev == store->folder.st_dev;
}

static void end_keeper(const struct fdstore *store)
{
	if (has_folder(store))
		keeper_end(store->directory);
}

/* It has nothing any more, and is owed all. One that only hangs must not be found by a successor. */
static void keeper_lost(struct fdstore *store)
{
	struct item *item, *after;

	end_keeper(store);
	close(store->keeper);
	store->keeper = -1;
	HASH_ITER (hh, store->items, item, after) {
		item_owe(store, item, item->fd >= 0 ? &store->puts : NULL);
	}
}

/* Whether there is somebody to send to. */
static bool has_other_side(struct fdstore *store)
{
	int64_t now = clock_ns();

	if (store->manager || store->keeper >= 0)
		return true;
	if (now < store->start_ns)
		return false;
	store->start_ns = now + START_MS * NS_PER_MS;
	errno = ENOENT;
	store->keeper = has_folder(store) ? keeper_start(store->directory) : -1;
	if (store->keeper < 0 && !store->said)
		log_line("can't start a keeper in %s: %s", store->directory, strerror(errno));
	store->said = store->keeper < 0;
	return store->keeper >= 0;
}

static bool is_owed(const struct fdstore *store, bool removes)
{
	return store->puts || (removes && store->removes);
}

static void flush(struct fdstore *store, bool removes)
{
	for (int try = 0; try < 2 && is_owed(store, removes) && has_other_side(store); try++) {
		int status = removes ? send_list(store, &store->removes) : GPUSHARE_OK;

		if (!status)
			status = send_list(store, &store->puts);
		if (!status || store->manager || keeper_lives(store->keeper))
			return; /* done, or later: it is busy, or many are under way */
		log_line("the keeper has gone");
		keeper_lost(store);
	}
}

static void flush_patiently(struct fdstore *store)
{
	int64_t deadline = clock_ns() + PATIENCE_MS * NS_PER_MS;

	for (flush(store, true); is_owed(store, true) && clock_ns() < deadline; flush(store, true))
		poll(NULL, 0, AGAIN_MS);
}

/* From then on all are the service manager's. */
static void end_keeper_if_done(struct fdstore *store)
{
	if (!store->manager || store->keeper < 0 || is_owed(store, true))
		return;
	end_keeper(store);
	close(store->keeper);
	store->keeper = -1;
}

static void hand_over(struct fdstore *store)
{
	uint64_t size = notify_store_size();

	if (store->count > size)
		log_line("the service manager's store is full at %" PRIu64 ": %" PRIu64
			 " descriptors will not outlive this process",
			 size, store->count - size);
	flush_patiently(store);
	end_keeper_if_done(store);
	if (store->keeper >= 0)
		log_line("the service manager is busy: the keeper stays so far");
}

/* The keeper's answer: which generation; 0: that was the last. false: it does not answer. */
static bool take_next(const struct fdstore *store, uint64_t *generation, int *out_fd)
{
	struct pollfd answer = {.fd = store->keeper, .events = POLLIN};
	char message[NOTIFY_MESSAGE + 1];
	int fds[FDS_MAX];
	size_t size, count;

	if (send_one(store, NOTIFY_NEXT, *generation, -1) || poll(&answer, 1, PATIENCE_MS) != 1 ||
	    fds_receive_bytes(store->keeper, message, NOTIFY_MESSAGE, &size, fds, &count))
		return false;
	message[size] = '\0';
	if (notify_read(message, generation) && count == (*generation != 0)) {
		*out_fd = fds[0];
		return true;
	}
	fds_close(fds, count);
	return false;
}

static void inherit_from_keeper(struct fdstore *store)
{
	uint64_t generation = 0;
	bool answers;
	int fd;

	while ((answers = take_next(store, &generation, &fd)) && generation)
		inherit(store, generation, fd);
	if (answers)
		return;
	log_line("the keeper of %s does not answer", store->directory);
	keeper_lost(store);
}

struct fdstore *fdstore_open(const char *directory)
{
	struct fdstore *store = calloc(1, sizeof(*store));
	uint64_t generation;
	int fd;

	if (!store)
		return NULL;
	snprintf(store->directory, sizeof(store->directory), "%s", directory);
	stat(directory, &store->folder);
	store->keeper = -1;
	while ((fd = notify_take(&generation)) >= 0)
		inherit(store, generation, fd);
	store->keeper = keeper_connect(directory);
	if (store->keeper >= 0)
		inherit_from_keeper(store);
	store->manager = notify_store_size() > 0;
	if (store->manager && store->keeper >= 0)
		hand_over(store);
	flush(store, true);
	if (store->count)
		log_line("%" PRIu64 " descriptors were left", store->count);
	return store;
}

bool fdstore_next(const struct fdstore *store, uint64_t *generation)
{
	const struct item *item = *generation ? item_find(store, *generation) : NULL;

	item = item ? item->hh.next : store->items;
	if (item)
		*generation = item->generation;
	return item;
}

int fdstore_take(struct fdstore *store, uint64_t generation)
{
	struct item *item = item_find(store, generation);

	if (!item || !item->own)
		return -1;
	item->own = false;
	return item->fd;
}

void fdstore_settle(struct fdstore *store)
{
	struct item *item, *after;

	HASH_ITER (hh, store->items, item, after) {
		if (item->own)
			item_drop(store, item);
	}
	flush(store, true);
}

bool fdstore_put(struct fdstore *store, uint64_t generation, int fd)
{
	struct item *item = item_find(store, generation);
	bool again;

	if (item) {
		item_drop(store, item);
		item = item_find(store, generation);
	}
	again = item; /* a service manager would have two of one name */
	if (store->manager && store->count >= notify_store_size()) {
		log_line("the service manager's store is full at %" PRIu64, store->count);
		return false;
	}
	if (!item)
		item = item_new(store, generation);
	if (!item) {
		log_line("no memory to keep a descriptor");
		return false;
	}
	item->fd = fd;
	item->own = false;
	store->count++;
	item_owe(store, item, again ? &store->removes : &store->puts);
	flush(store, again);
	if (store->manager || store->keeper >= 0)
		return true;
	log_line("no keeper: generation %" PRIu64 " will not outlive this process", generation);
	return false;
}

void fdstore_drop(struct fdstore *store, uint64_t generation)
{
	struct item *item = item_find(store, generation);

	if (item)
		item_drop(store, item);
}

void fdstore_flush(struct fdstore *store)
{
	flush(store, true);
}

int64_t fdstore_tick(struct fdstore *store, int *out_keeper)
{
	if (!store->manager && store->keeper >= 0 && !keeper_lives(store->keeper)) {
		log_line("the keeper has gone");
		keeper_lost(store);
	}
	flush(store, true);
	end_keeper_if_done(store);
	*out_keeper = store->manager ? -1 : store->keeper;
	if (!is_owed(store, true))
		return INT64_MAX;
	return store->manager || store->keeper >= 0 ? clock_ns() + AGAIN_MS * NS_PER_MS
						    : store->start_ns;
}

void fdstore_close(struct fdstore *store, bool keep)
{
	struct item *item, *after;

	HASH_ITER (hh, store->items, item, after) {
		if (!keep)
			item_drop(store, item);
	}
	if (keep || store->manager)
		flush_patiently(store);
	end_keeper_if_done(store);
	if (!keep && store->keeper >= 0)
		end_keeper(store);
	HASH_ITER (hh, store->items, item, after) {
		if (item->own && item->fd >= 0)
			close_soon(store, item->fd);
		HASH_DEL(store->items, item);
		free(item);
	}
	if (store->keeper >= 0)
		close(store->keeper);
	closer_end(store->closer);
	free(store);
}
