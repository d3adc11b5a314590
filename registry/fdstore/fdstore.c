/* SPDX-License-Identifier: MIT */
#include "fdstore/fdstore.h"

#include <errno.h>
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
#include "fdstore/keeper.h"
#include "fdstore/notify.h"

#define AGAIN_MS 20	 /* between two tries, if the other side is too busy */
#define START_MS 1000	 /* between two starts of a keeper */
#define PATIENCE_MS 1000 /* how long fdstore_close() tries to send */
/* a keeper that does not answer in time is abandoned, with its descriptors */
#define ANSWER_MS 2000

struct item {
	UT_hash_handle hh;
	uint64_t number;
	/* -1: to be removed from the other side; the item is in no table */
	int fd;
	bool own;  /* this store owns the descriptor: nobody has taken it */
	bool owed; /* still to be sent to the other side */
	struct item *prev, *next;
};

struct fdstore {
	char directory[GPUSHARE_PATH_MAX];
	struct stat folder; /* to notice that the directory was removed, or made again by others */
	bool manager;	    /* the other side is the service manager, not a keeper */
	int side;	    /* the connection to the other side; -1: none */
	bool said;	    /* it was logged that there is no other side */
	struct item *items; /* by number */
	/* to be sent: new descriptors first, removals last, because a restarted registry looks for
	 * the descriptor as long as registry.state has the buffer's record */
	struct item *owed;
	int64_t start_ns; /* no attempt to reach the other side before then */
};

static struct item *item_find(const struct fdstore *store, uint64_t number)
{
	struct item *item;

	HASH_FIND(hh, store->items, &number, sizeof(number), item);
	return item;
}

static struct item *item_new(struct fdstore *store, uint64_t number, int fd, bool own)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		return NULL;
	*item = (struct item){.number = number, .fd = fd, .own = own};
	HASH_ADD(hh, store->items, number, sizeof(number), item);
	if (item->hh.tbl)
		return item;
	free(item);
	return NULL;
}

static void settle(struct fdstore *store, struct item *item)
{
	if (item->owed)
		DL_DELETE(store->owed, item);
	item->owed = false;
	if (item->fd < 0)
		free(item);
}

static void owe(struct fdstore *store, struct item *item, bool last)
{
	if (item->owed)
		return;
	if (last)
		DL_APPEND(store->owed, item);
	else
		DL_PREPEND(store->owed, item);
	item->owed = true;
}

/* A descriptor that was never sent needs no removal. */
static void drop(struct fdstore *store, struct item *item)
{
	bool owed = item->owed;

	HASH_DEL(store->items, item);
	if (item->own)
		closer_add(NULL, item->fd);
	settle(store, item);
	item->fd = -1;
	if (owed)
		free(item);
	else
		owe(store, item, true);
}

static bool is_full(const struct fdstore *store)
{
	return store->manager && HASH_COUNT(store->items) >= notify_store_size();
}

static void say_full(void)
{
	log_line("the service manager's store of file descriptors is full: the memory of a buffer "
		 "is lost when this process ends");
}

/* Take over a descriptor of a predecessor. A second one of the same number is closed. */
static void inherit(struct fdstore *store, uint64_t number, int fd)
{
	bool full = is_full(store);
	struct item *item = item_find(store, number) ? NULL : item_new(store, number, fd, true);

	if (!item)
		closer_add(NULL, fd);
	else if (full)
		say_full();
	else if (store->manager)
		owe(store, item, false);
}

static int send_one(const struct fdstore *store, const char *verb, uint64_t number, int fd)
{
	char message[NOTIFY_MESSAGE];
	size_t size = notify_write(message, verb, number);

	return fds_send_bytes(store->side, message, size, &fd, fd >= 0);
}

static bool has_folder(const struct fdstore *store)
{
	struct stat is;

	return !stat(store->directory, &is) && is.st_ino == store->folder.st_ino &&
	       is.st_dev == store->folder.st_dev;
}

/* Remove the keeper's socket, too: if the keeper only hangs, a successor must not find it. */
static void end_keeper(struct fdstore *store)
{
	if (has_folder(store))
		keeper_end(store->directory);
	close(store->side);
	store->side = -1;
}

/* The connection has ended. What a keeper held is lost: queue all our descriptors for the next
 * keeper, and forget removals that were to be sent. A service manager keeps what it holds. */
static void lose_side(struct fdstore *store)
{
	struct item *item, *after;

	end_keeper(store);
	if (store->manager)
		return;
	log_line("the keeper has ended");
	DL_FOREACH_SAFE (store->owed, item, after) {
		if (item->fd < 0)
			settle(store, item);
	}
	HASH_ITER (hh, store->items, item, after) {
		owe(store, item, false);
	}
}

static bool is_lost(const struct fdstore *store, int status)
{
	if (!store->manager)
		return !keeper_lives(store->side);
	return status && status != GPUSHARE_E_TIMED_OUT && status != GPUSHARE_E_LIMIT;
}

/* Whether there is a connection to send on; connects, or starts a keeper, if that is due. */
static bool has_other_side(struct fdstore *store)
{
	int64_t now = clock_ns();

	if (store->side >= 0)
		return true;
	if (now < store->start_ns)
		return false;
	store->start_ns = now + START_MS * NS_PER_MS;
	errno = ENOENT;
	if (store->manager)
		store->side = notify_connect();
	else if (has_folder(store))
		store->side = keeper_start(store->directory);
	if (store->side < 0 && !store->said)
		log_line("no fd store for %s: %s", store->directory, strerror(errno));
	store->said = store->side < 0;
	return store->side >= 0;
}

/* Send what is owed, but removals only if `all`, until the other side is too busy. */
static void flush(struct fdstore *store, bool all)
{
	struct item *item;

	while ((item = store->owed) && (all || item->fd >= 0) && has_other_side(store)) {
		const char *verb = item->fd < 0 ? NOTIFY_REMOVE : NOTIFY_STORE;
		int status = send_one(store, verb, item->number, item->fd);

		if (!status)
			settle(store, item);
		else if (is_lost(store, status))
			lose_side(store);
		else
			return; /* it is busy, or too many descriptors are in flight */
	}
}

static void flush_patiently(struct fdstore *store)
{
	int64_t deadline = clock_ns() + PATIENCE_MS * NS_PER_MS;

	for (flush(store, true); store->owed && clock_ns() < deadline; flush(store, true))
		poll(NULL, 0, AGAIN_MS);
}

/* Take the descriptor after *number from the keeper, and set *number. 0: there is no
 * more. false: the keeper does not answer. */
static bool take_next(const struct fdstore *store, uint64_t *number, int *out_fd)
{
	struct pollfd answer = {.fd = store->side, .events = POLLIN};
	char message[NOTIFY_MESSAGE + 1];
	int fds[FDS_MAX];
	size_t size, count;

	if (send_one(store, NOTIFY_NEXT, *number, -1) || poll(&answer, 1, ANSWER_MS) != 1 ||
	    fds_receive_bytes(store->side, message, NOTIFY_MESSAGE, &size, fds, &count))
		return false;
	message[size] = '\0';
	if (notify_read(message, number) && count == (*number != 0)) {
		*out_fd = fds[0];
		return true;
	}
	fds_close(fds, count);
	return false;
}

/* If there is a service manager, it gets all of the keeper's descriptors, and the keeper ends. */
static void inherit_from_keeper(struct fdstore *store)
{
	uint64_t number = 0;
	bool answers;
	int fd;

	while ((answers = take_next(store, &number, &fd)) && number)
		inherit(store, number, fd);
	if (!answers)
		log_line("the keeper of %s does not answer", store->directory);
	if (!answers || store->manager)
		lose_side(store);
}

struct fdstore *fdstore_open(const char *directory)
{
	struct fdstore *store = calloc(1, sizeof(*store));
	unsigned int count;
	uint64_t number;
	int fd;

	if (!store)
		return NULL;
	snprintf(store->directory, sizeof(store->directory), "%s", directory);
	stat(directory, &store->folder);
	while ((fd = notify_take(&number)) >= 0)
		inherit(store, number, fd);
	store->manager = notify_store_size() > 0;
	store->side = keeper_connect(directory);
	if (store->side >= 0)
		inherit_from_keeper(store);
	flush(store, true);
	count = HASH_COUNT(store->items);
	if (count)
		log_line("took over %u file descriptors", count);
	return store;
}

bool fdstore_next(const struct fdstore *store, uint64_t *number)
{
	const struct item *item = *number ? item_find(store, *number) : NULL;

	item = item ? item->hh.next : store->items;
	if (item)
		*number = item->number;
	return item;
}

int fdstore_take(struct fdstore *store, uint64_t number)
{
	struct item *item = item_find(store, number);

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
			drop(store, item);
	}
	flush(store, true);
}

void fdstore_put(struct fdstore *store, uint64_t number, int fd)
{
	struct item *item, *again = NULL;

	if (is_full(store)) {
		say_full();
		return;
	}
	item = item_new(store, number, fd, false);
	if (!item)
		return;
	/* If the removal of an older descriptor of this number is still to be sent, send it
	 * first. Otherwise a service manager would keep both under the same name. */
	DL_SEARCH_SCALAR(store->owed, again, number, number);
	owe(store, item, again);
	flush(store, again);
}

void fdstore_drop(struct fdstore *store, uint64_t number)
{
	struct item *item = item_find(store, number);

	if (item)
		drop(store, item);
}

void fdstore_flush(struct fdstore *store)
{
	flush(store, true);
}

int64_t fdstore_tick(struct fdstore *store, int *out_keeper)
{
	if (store->side >= 0 && is_lost(store, GPUSHARE_OK))
		lose_side(store);
	flush(store, true);
	*out_keeper = store->manager ? -1 : store->side;
	if (!store->owed)
		return INT64_MAX;
	return store->side >= 0 ? clock_ns() + AGAIN_MS * NS_PER_MS : store->start_ns;
}

bool fdstore_owes(const struct fdstore *store)
{
	return store->owed;
}

void fdstore_close(struct fdstore *store, bool keep)
{
	struct item *item, *after;

	if (!keep) {
		HASH_ITER (hh, store->items, item, after) {
			drop(store, item);
		}
	}
	if (keep || store->manager)
		flush_patiently(store);
	else if (store->side >= 0)
		end_keeper(store);
	DL_FOREACH_SAFE (store->owed, item, after) {
		settle(store, item);
	}
	HASH_ITER (hh, store->items, item, after) {
		HASH_DEL(store->items, item);
		free(item);
	}
	if (store->side >= 0)
		close(store->side);
	free(store);
}
