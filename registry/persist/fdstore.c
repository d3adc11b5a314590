/* SPDX-License-Identifier: MIT */
#include "persist/fdstore.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#include "os/clock.h"
#include "os/closer.h"
#include "persist/fdnames.h"
#include "os/hash.h"
#include "persist/keeper_link.h"
#include "os/log.h"
#include "persist/notify.h"

#define AGAIN_MS 20	 /* when the other side was too busy */
#define START_MS 1000	 /* between two starts of a keeper */
#define PATIENCE_MS 1000 /* at the end */

/* What is kept under a generation, or is to be, or is not to be any more. */
struct item {
	UT_hash_handle hh;
	uint64_t generation;
	int fd;			  /* -1: it is to go */
	bool own;		  /* the descriptor is this store's: nobody took it so far */
	bool put;		  /* owed to the other side, after... */
	bool remove;		  /* ...what it has under that name has gone */
	struct item *prev, *next; /* of those with either */
};

struct fdstore {
	struct keeper_link link;
	bool manager; /* the service manager keeps them, and no keeper */
	struct item *items, *owed;
	uint64_t count;	       /* with a descriptor */
	size_t removes;	       /* owed */
	size_t puts;	       /* the same, but behind a remove */
	int64_t start_ns;      /* no keeper is started before then */
	struct closer *closer; /* opened when there is something to close */
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

/* What is owed of it from now on; gone where nothing is left. */
static void item_owe(struct fdstore *store, struct item *item, bool put, bool remove)
{
	bool was = item->put || item->remove, is = put || remove;

	store->removes += (size_t)remove - (size_t)item->remove;
	store->puts += (size_t)(put && !remove) - (size_t)(item->put && !item->remove);
	item->put = put;
	item->remove = remove;
	if (is && !was)
		DL_APPEND(store->owed, item);
	else if (!is && was)
		DL_DELETE(store->owed, item);
	if (is || item->fd >= 0)
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

static void item_drop(struct fdstore *store, struct item *item)
{
	if (item->fd < 0)
		return;
	if (item->own)
		close_soon(store, item->fd);
	item->fd = -1;
	store->count--;
	item_owe(store, item, false, item->remove || !item->put);
}

/* What a predecessor left. Two of one name are one. */
static void inherit(struct fdstore *store, uint64_t generation, int fd, bool put)
{
	struct item *item = item_find(store, generation) ? NULL : item_new(store, generation);

	if (!item) {
		close_soon(store, fd);
		return;
	}
	item->fd = fd;
	item->own = true;
	store->count++;
	item_owe(store, item, put, false);
}

static int store_send(struct fdstore *store, const char *verb, const uint64_t *generations,
		      const int *fds, size_t count, bool put)
{
	char message[FDNAMES_MESSAGE];
	size_t size = fdnames_write(message, verb, generations, count);

	return store->manager ? notify_send(message, size, fds, put ? count : 0)
			      : fds_send_bytes(store->link.fd, message, size, fds, put ? count : 0);
}

/* Up to `most` of those that are owed that, in one message. */
static int send_some(struct fdstore *store, bool put, size_t most)
{
	uint64_t generations[FDS_MAX];
	struct item *items[FDS_MAX], *item, *after;
	int fds[FDS_MAX], status;
	size_t count = 0;

	DL_FOREACH_SAFE(store->owed, item, after)
	{
		if (!(put ? item->put && !item->remove : item->remove))
			continue;
		if (put && fcntl(item->fd, F_GETFD) < 0) { /* else no other one could be sent */
			log_line("generation %" PRIu64 " was closed", item->generation);
			item_owe(store, item, false, false);
			continue;
		}
		items[count] = item;
		generations[count] = item->generation;
		fds[count++] = item->fd;
		if (count == most)
			break;
	}
	if (!count)
		return GPUSHARE_OK;
	status =
	    store_send(store, put ? FDNAMES_STORE : FDNAMES_REMOVE, generations, fds, count, put);
	for (size_t i = 0; !status && i < count; i++)
		item_owe(store, items[i], put ? false : items[i]->put, false);
	return status;
}

/* The service manager takes one at a time. */
static int send_all(struct fdstore *store, bool removes)
{
	size_t most = store->manager ? 1 : FDS_MAX;
	int status = GPUSHARE_OK;

	while (!status && removes && store->removes)
		status = send_some(store, false, most);
	while (!status && store->puts)
		status = send_some(store, true, most);
	return status;
}

/* The keeper has gone: it has nothing, and is owed all. */
static void keeper_lost(struct fdstore *store)
{
	struct item *item, *after;

	keeper_link_abandon(&store->link);
	HASH_ITER (hh, store->items, item, after) {
		item_owe(store, item, item->fd >= 0, false);
	}
}

/* Whether there is somebody to send to. */
static bool has_other_side(struct fdstore *store)
{
	int64_t now = clock_ns();

	if (store->manager || store->link.fd >= 0)
		return true;
	if (now < store->start_ns)
		return false;
	store->start_ns = now + START_MS * NS_PER_MS;
	return keeper_link_start(&store->link);
}

static void flush(struct fdstore *store, bool removes)
{
	for (int try = 0; try < 2 && store->owed && has_other_side(store); try++) {
		int status = send_all(store, removes);

		if (!status || store->manager || keeper_link_lives(&store->link))
			return; /* done, or later: it is busy, or many are under way */
		log_line("the keeper has gone");
		keeper_lost(store);
	}
}

/* Those of a keeper that lives. */
static void inherit_from_keeper(struct fdstore *store)
{
	uint64_t generations[FDS_MAX];
	int fds[FDS_MAX], count;

	while ((count = keeper_link_take(&store->link, generations, fds)) > 0) {
		for (int i = 0; i < count; i++)
			inherit(store, generations[i], fds[i], store->manager);
	}
	if (count < 0)
		keeper_lost(store);
	if (!store->manager)
		return;
	/* from now on they are the service manager's */
	flush(store, true);
	keeper_link_dismiss(&store->link);
}

struct fdstore *fdstore_open(const char *directory)
{
	struct fdstore *store = calloc(1, sizeof(*store));
	uint64_t generation;
	int fd;

	if (!store)
		return NULL;
	keeper_link_init(&store->link, directory);
	while ((fd = notify_take(&generation)) >= 0)
		inherit(store, generation, fd, false);
	store->manager = notify_store_size() > 0;
	if (keeper_link_find(&store->link))
		inherit_from_keeper(store);
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

bool fdstore_is_managers(const struct fdstore *store)
{
	return store->manager;
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

	if (item && item->fd >= 0) {
		item_drop(store, item);
		item = item_find(store, generation);
	}
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
	item_owe(store, item, true, item->remove);
	flush(store, false);
	if (store->manager || store->link.fd >= 0)
		return true;
	log_line("no keeper: generation %" PRIu64 " will not outlive this process", generation);
	return false;
}

void fdstore_drop(struct fdstore *store, uint64_t generation)
{
	struct item *item = item_find(store, generation);

	if (!item)
		return;
	item_drop(store, item);
}

void fdstore_flush(struct fdstore *store)
{
	if (store->owed)
		flush(store, true);
}

int64_t fdstore_tick(struct fdstore *store)
{
	if (store->link.fd >= 0 && !keeper_link_lives(&store->link)) {
		log_line("the keeper has gone");
		keeper_lost(store);
	}
	flush(store, true);
	if (!store->owed)
		return INT64_MAX;
	return store->manager || store->link.fd >= 0 ? clock_ns() + AGAIN_MS * NS_PER_MS
						     : store->start_ns;
}

static void flush_patiently(struct fdstore *store)
{
	int64_t deadline = clock_ns() + PATIENCE_MS * NS_PER_MS;

	for (flush(store, true); store->owed && clock_ns() < deadline; flush(store, true))
		poll(NULL, 0, AGAIN_MS);
}

bool fdstore_tie(struct fdstore *store, int process, const uint64_t *generations, size_t count)
{
	int64_t deadline = clock_ns() + PATIENCE_MS * NS_PER_MS;
	char message[FDNAMES_MESSAGE];
	size_t size = fdnames_write(message, FDNAMES_OWNER, generations, count);
	int status;

	if (!store->manager)
		flush_patiently(store); /* it can't tie what it doesn't have */
	if (store->manager || store->owed || store->link.fd < 0)
		return false;
	while ((status = fds_send_bytes(store->link.fd, message, size, &process, 1)) ==
		   GPUSHARE_E_TIMED_OUT &&
	       clock_ns() < deadline)
		poll(NULL, 0, AGAIN_MS);
	return !status;
}

void fdstore_close(struct fdstore *store, bool keep)
{
	struct item *item, *after;

	if (!keep && !store->manager)
		keeper_link_dismiss(&store->link);
	HASH_ITER (hh, store->items, item, after) {
		if (!keep)
			item_drop(store, item);
	}
	if (keep || store->manager)
		flush_patiently(store);
	HASH_ITER (hh, store->items, item, after) {
		if (item->own && item->fd >= 0)
			close_soon(store, item->fd);
		HASH_DEL(store->items, item);
		free(item);
	}
	keeper_link_close(&store->link);
	closer_end(store->closer);
	free(store);
}
