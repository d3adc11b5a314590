/* SPDX-License-Identifier: MIT */
#include "fdstore/fdstore.h"

#include <errno.h>
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
#include "os/instance.h"
#include "os/log.h"
#include "fdstore/keeper.h"
#include "fdstore/notify.h"

#define AGAIN_MS 20	 /* between two attempts to send, if the other side is too busy */
#define START_MS 1000	 /* between two starts of a keeper */
#define PATIENCE_MS 1000 /* how long fdstore_close() tries to send */
/* how long a keeper may take to answer; then it is abandoned, with its descriptors */
#define ANSWER_MS 2000

/* A descriptor that a predecessor left. It has a reference until fdstore_settle(). */
struct inherited {
	UT_hash_handle hh;
	uint64_t number;
	struct fdref *fdref; /* `struct inherited` has this reference until fdstore_settle() */
};

/* A descriptor that the other side must still be told to drop. */
struct dropped {
	uint64_t number;
	struct dropped *next;
};

struct fdstore {
	struct users *users;
	char directory[GPUSHARE_PATH_MAX];
	struct stat folder; /* the directory, to notice if it was removed or replaced */
	bool manager;	    /* the other side is the service manager, not a keeper */
	int side;	    /* the connection to the other side; -1: none */
	bool said;	    /* the log already says that there is no other side */
	/* The descriptors, unsent ones first. All are sent before any drop: while a record in
	 * registry.state refers to a descriptor, a successor must find that. */
	struct fdref *fdrefs;
	uint64_t count;
	struct dropped *dropped;
	struct inherited *inherited; /* by number */
	int64_t start_ns;	     /* when to try next to connect to the other side */
};

static struct inherited *find(const struct fdstore *store, uint64_t number)
{
	struct inherited *found;

	HASH_FIND(hh, store->inherited, &number, sizeof(number), found);
	return found;
}

static void add(struct fdstore *store, struct fdref *fdref, bool sent)
{
	if (store->manager && store->count >= notify_store_size()) {
		log_line("the service manager's store of file descriptors is full: the memory of a "
			 "buffer is lost when this process ends");
		fdref->stored = 0;
		return;
	}
	fdref->sent = sent;
	if (sent)
		DL_APPEND(store->fdrefs, fdref);
	else
		DL_PREPEND(store->fdrefs, fdref);
	store->count++;
}

/* Take over a descriptor of a predecessor. If another one has the same number, close this one. */
static void inherit(struct fdstore *store, uint64_t number, int fd)
{
	struct inherited *one = find(store, number) ? NULL : calloc(1, sizeof(*one));

	if (one && (one->fdref = fdref_new(store->users, NULL, fd))) {
		one->number = one->fdref->stored = number;
		HASH_ADD(hh, store->inherited, number, sizeof(number), one);
		if (one->hh.tbl) {
			add(store, one->fdref, !store->manager);
			return;
		}
		fdref_release(store->users, one->fdref);
	} else {
		closer_add(NULL, fd);
	}
	free(one);
}

static int send_one(const struct fdstore *store, const char *verb, uint64_t number, int fd)
{
	char message[NOTIFY_MESSAGE];
	size_t size = notify_write(message, verb, number);

	return fds_send_bytes(store->side, message, size, &fd, fd >= 0);
}

/* Close the connection and remove the keeper's socket: if the keeper hangs, a successor must not
 * find it. */
static void end_keeper(struct fdstore *store)
{
	if (is_file(store->directory, &store->folder))
		keeper_end(store->directory);
	close(store->side);
	store->side = -1;
}

static void forget_drops(struct fdstore *store)
{
	struct dropped *one, *after;

	LL_FOREACH_SAFE (store->dropped, one, after) {
		free(one);
	}
	store->dropped = NULL;
}

/* The connection has ended. If it was a keeper's, its descriptors are lost: mark all ours as
 * unsent, for the next keeper, and forget the drops. A service manager still has them. */
static void lose_side(struct fdstore *store)
{
	struct fdref *fdref;

	end_keeper(store);
	if (store->manager)
		return;
	log_line("the keeper has ended");
	forget_drops(store);
	DL_FOREACH (store->fdrefs, fdref) {
		fdref->sent = false;
	}
}

/* Whether the connection has ended. `status` is that of the last message sent. A keeper only sends
 * answers, so a readable connection means that it has ended. */
static bool is_lost(const struct fdstore *store, int status)
{
	if (!store->manager)
		return poll(&(struct pollfd){.fd = store->side, .events = POLLIN}, 1, 0) == 1;
	return status && status != GPUSHARE_E_TIMED_OUT && status != GPUSHARE_E_LIMIT;
}

/* Whether the other side is connected. If not, connect or start a keeper, but only once in
 * START_MS. */
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
	else if (is_file(store->directory, &store->folder))
		store->side = keeper_start(store->directory);
	if (store->side < 0 && !store->said)
		log_line("no fd store for %s: %s", store->directory, strerror(errno));
	store->said = store->side < 0;
	return store->side >= 0;
}

static struct fdref *next_unsent(const struct fdstore *store)
{
	return store->fdrefs && !store->fdrefs->sent ? store->fdrefs : NULL;
}

bool fdstore_owes(const struct fdstore *store)
{
	return next_unsent(store) || store->dropped;
}

/* Send unsent descriptors and, if `all`, then the drops. Stop if the other side is too busy. */
static void flush(struct fdstore *store, bool all)
{
	struct dropped *dropped = NULL;
	struct fdref *fdref;

	while (((fdref = next_unsent(store)) || (all && (dropped = store->dropped))) &&
	       has_other_side(store)) {
		int status = fdref ? send_one(store, NOTIFY_STORE, fdref->stored, fdref->fd)
				   : send_one(store, NOTIFY_REMOVE, dropped->number, -1);

		if (status && !is_lost(store, status))
			return; /* the other side is busy, or too many descriptors are in flight */
		if (status) {
			lose_side(store);
		} else if (fdref) {
			fdref->sent = true;
			DL_DELETE(store->fdrefs, fdref);
			DL_APPEND(store->fdrefs, fdref);
		} else {
			store->dropped = dropped->next;
			free(dropped);
		}
	}
}

/* Take the descriptor after *number from the keeper, and set *number to its number; 0: there is no
 * more. false: the keeper does not answer. */
static bool take_next(const struct fdstore *store, uint64_t *number, int *out_fd)
{
	struct pollfd answer = {.fd = store->side, .events = POLLIN};
	char message[NOTIFY_MESSAGE + 1], verb[NOTIFY_VERB];
	size_t size;
	int fd;

	if (send_one(store, NOTIFY_NEXT, *number, -1) || poll(&answer, 1, ANSWER_MS) != 1 ||
	    fds_receive(store->side, NULL, message, NOTIFY_MESSAGE, &size, &fd))
		return false;
	message[size] = '\0';
	if (notify_read(message, verb, number) && (fd >= 0) == (*number != 0)) {
		*out_fd = fd;
		return true;
	}
	fds_close(&fd, fd >= 0);
	return false;
}

/* Take over the keeper's descriptors. If there is a service manager, flush() then sends them there,
 * and the keeper ends. */
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

struct fdstore *fdstore_open(const char *directory, struct users *users)
{
	struct fdstore *store = calloc(1, sizeof(*store));
	uint64_t number;
	int fd;

	if (!store)
		return NULL;
	store->users = users;
	snprintf(store->directory, sizeof(store->directory), "%s", directory);
	stat(directory, &store->folder);
	while ((fd = notify_take(&number)) >= 0)
		inherit(store, number, fd);
	store->manager = notify_store_size() > 0;
	store->side = keeper_connect(directory);
	if (store->side >= 0)
		inherit_from_keeper(store);
	flush(store, true);
	if (store->count)
		log_line("took over %" PRIu64 " file descriptors", store->count);
	return store;
}

bool fdstore_next(const struct fdstore *store, uint64_t *number)
{
	const struct inherited *one = *number ? find(store, *number) : NULL;

	one = one ? one->hh.next : store->inherited;
	if (one)
		*number = one->number;
	return one;
}

struct fdref *fdstore_take(const struct fdstore *store, uint64_t number)
{
	const struct inherited *one = find(store, number);

	return one ? fdref_again(one->fdref) : NULL;
}

void fdstore_settle(struct fdstore *store)
{
	struct inherited *one, *after;

	HASH_ITER (hh, store->inherited, one, after) {
		HASH_DEL(store->inherited, one);
		fdstore_release(store, one->fdref);
		free(one);
	}
	flush(store, true);
}

/* An earlier stream-sync page of the same buffer may have had the same number. Its drop must not be
 * sent after the new descriptor. */
void fdstore_put(struct fdstore *store, struct fdref *fdref)
{
	struct dropped *earlier;

	LL_SEARCH_SCALAR(store->dropped, earlier, number, fdref->stored);
	if (earlier) {
		flush(store, true);
		LL_SEARCH_SCALAR(store->dropped, earlier, number, fdref->stored);
	}
	if (earlier) {
		LL_DELETE(store->dropped, earlier);
		free(earlier);
	}
	add(store, fdref, false);
	flush(store, false);
}

static void drop(struct fdstore *store, struct fdref *fdref)
{
	struct dropped *one = fdref->sent ? malloc(sizeof(*one)) : NULL;

	DL_DELETE(store->fdrefs, fdref);
	store->count--;
	if (!one)
		return;
	one->number = fdref->stored;
	LL_PREPEND(store->dropped, one);
}

void fdstore_release(struct fdstore *store, struct fdref *fdref)
{
	if (fdref->references == 1 && fdref->stored)
		drop(store, fdref);
	fdref_release(store->users, fdref);
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
	if (!fdstore_owes(store))
		return INT64_MAX;
	return store->side >= 0 ? clock_ns() + AGAIN_MS * NS_PER_MS : store->start_ns;
}

void fdstore_close(struct fdstore *store, bool keep)
{
	int64_t deadline = clock_ns() + PATIENCE_MS * NS_PER_MS;

	while (!keep && store->fdrefs)
		drop(store, store->fdrefs);
	if (!keep && !store->manager) { /* drops needn't be sent: the keeper ends */
		forget_drops(store);
		if (store->side >= 0)
			end_keeper(store);
	}
	for (flush(store, true); fdstore_owes(store) && clock_ns() < deadline; flush(store, true))
		poll(NULL, 0, AGAIN_MS);
	forget_drops(store);
	if (store->side >= 0)
		close(store->side);
	free(store);
}
