/* SPDX-License-Identifier: MIT */
#include "order_page.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/fdstore.h"
#include "os/log.h"
#include "quota.h"

/* In the store of descriptors, beside that of the buffer itself. */
#define PAGE (UINT64_C(1) << 63)
#define KEY(generation) ((generation) | PAGE)

static struct order *find(const struct registry *registry, uint64_t generation)
{
	struct order *order;

	HASH_FIND(hh, registry->orders, &generation, sizeof(generation), order);
	return order;
}

struct order *order_find(const struct registry *registry, uint64_t generation)
{
	struct order *order = find(registry, generation);

	return order && !order->ended ? order : NULL;
}

bool order_may(const struct entry *entry, const struct session *session)
{
	const struct known *info;

	if (!entry)
		return false;
	info = &entry->info;
	if (entry->session == session && !info->in_limbo && !entry->unsynced)
		return true;
	return session_find_attachment(session, info->name, info->generation);
}

static struct order *order_new(struct registry *registry, uint64_t generation)
{
	struct order *order = calloc(1, sizeof(*order));

	if (!order)
		return NULL;
	order->generation = generation;
	HASH_ADD(hh, registry->orders, generation, sizeof(generation), order);
	if (order->hh.tbl)
		return order;
	free(order);
	return NULL;
}

void order_free(struct registry *registry, struct order *order)
{
	while (order->participants)
		participant_end(registry, order->participants);
	for (uint32_t at = 0; at < ORDER_SLOTS; at++)
		quarantine_end(registry, &order->place[at]);
	order_unmark(registry, order);
	order_page_unmap(order->page);
	if (order->held) {
		if (registry->fdstore)
			fdstore_drop(registry->fdstore, KEY(order->generation));
		fdtable_release(&registry->fdtable, order->held);
	}
	HASH_DEL(registry->orders, order);
	free(order);
}

static bool order_hold(struct order *order, struct held *held)
{
	struct order_page *page;

	if (order_page_map(held->fd, order->generation, &page))
		return false;
	order->held = held;
	order->page = page;
	return true;
}

static void order_put(struct registry *registry, const struct order *order)
{
	if (registry->fdstore)
		fdstore_put(registry->fdstore, KEY(order->generation), order->held->fd);
}

/* Whose the buffer is counts for its page. NULL: it has gone. */
static struct user *user_by(const struct registry *registry, uint64_t generation)
{
	const struct entry *entry = store_find_generation(&registry->store, generation);

	return entry ? entry->user : NULL;
}

static int order_make(struct registry *registry, struct order *order)
{
	struct user *user = user_by(registry, order->generation);
	struct held *held;
	uint64_t id;
	int fd;

	if (user && limit_check(registry, user, LIMIT_descriptors, 1, NULL))
		return GPUSHARE_E_LIMIT;
	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
		return GPUSHARE_E_NO_MEMORY;
	fd = order_page_make(order->generation, id | 1);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? GPUSHARE_E_LIMIT : GPUSHARE_E_NO_MEMORY;
	held = fdtable_keep(&registry->fdtable, user, fd);
	if (!held) {
		close(fd);
		return GPUSHARE_E_NO_MEMORY;
	}
	if (order_hold(order, held)) {
		order_put(registry, order);
		return GPUSHARE_OK;
	}
	fdtable_release(&registry->fdtable, held);
	return GPUSHARE_E_NO_MEMORY;
}

/* From now on what the index says of it is not all. */
static void hide(struct registry *registry, uint64_t generation)
{
	struct entry *entry = store_find_generation(&registry->store, generation);

	if (entry)
		indexer_remove(&registry->index, entry);
}

int order_open(struct registry *registry, uint64_t generation, bool make, struct order **out_order)
{
	struct order *order = find(registry, generation);
	int status = GPUSHARE_OK;

	if (!order) {
		order = order_new(registry, generation);
		hide(registry, generation);
	}
	if (!order)
		return GPUSHARE_E_NO_MEMORY;
	order->ended = false; /* the buffer was brought back */
	if (make && !order->page && order->participants)
		return GPUSHARE_E_TIMED_OUT; /* some have one: two would be two orders */
	if (make && !order->page) {
		status = order_make(registry, order);
		if (!status)
			order_settle(registry, order,
				     store_find_generation(&registry->store, generation));
	}
	if (status && !order->participants)
		order_free(registry, order);
	else
		*out_order = order;
	return status;
}

bool order_give_back(struct registry *registry, struct order *order, struct held *held)
{
	if (order->page || !order_hold(order, held))
		return false;
	order_put(registry, order);
	order_look_over(registry, order);
	return true;
}

static bool may_play(const struct order *order, const struct entry *entry,
		     const struct session *session)
{
	return entry ? order_may(entry, session)
		     : order->awaited_ns && session_find_generation(session, order->generation);
}

void order_check(struct registry *registry, uint64_t generation)
{
	struct order *order = order_find(registry, generation);
	const struct entry *entry = store_find_generation(&registry->store, generation);
	struct participant *participant, *after;

	if (!order || registry->loading)
		return;
	DL_FOREACH_SAFE(order->participants, participant, after)
	{
		if (!may_play(order, entry, participant->session))
			participant_end(registry, participant);
	}
	order_settle(registry, order, entry);
}

void order_adopt(struct registry *registry, uint64_t generation)
{
	struct order *order = order_find(registry, generation);

	if (!order)
		return;
	order->left = false;
	order_check(registry, generation);
}

void order_end(struct registry *registry, uint64_t generation)
{
	struct order *order = order_find(registry, generation);

	if (!order || registry->loading)
		return;
	while (order->participants)
		participant_end(registry, order->participants);
	order->awaited_ns = 0;
	order_settle(registry, order, NULL);
	order->ended = true;
	if (!order->marked_ns)
		order_free(registry, order);
}

void order_end_session(struct registry *registry, struct session *session)
{
	while (session->participants) {
		struct participant *participant = session->participants;
		struct order *order = participant->order;

		participant_end(registry, participant);
		order_settle(registry, order,
			     store_find_generation(&registry->store, order->generation));
	}
}

void order_tell(const struct registry *registry, const struct entry *entry, record *out_info)
{
	const struct order *order = order_find(registry, entry->info.generation);

	out_info->sequence = 0;
	out_info->ordering = 0;
	if (!order || !order->page)
		return;
	out_info->sequence = order_published(order->page);
	out_info->ordering = atomic_load(&order->page->means);
}

/* The page that a predecessor put away. */
static void take(struct registry *registry, uint64_t generation)
{
	int fd = fdstore_take(registry->fdstore, KEY(generation));
	struct order *order = order_find(registry, generation);
	struct held *held;

	if (fd < 0)
		return;
	if (!order)
		order = order_new(registry, generation);
	held = order ? fdtable_keep(&registry->fdtable, user_by(registry, generation), fd) : NULL;
	if (held && order_hold(order, held))
		return;
	fdstore_drop(registry->fdstore, KEY(generation));
	if (held)
		fdtable_release(&registry->fdtable, held);
	else
		close(fd);
}

/* A predecessor was waiting for who shares it: see order_settle.c. */
static bool is_unheard_of(const struct registry *registry, const struct order *order)
{
	return order->page && order->participants && order->generation <= registry->since;
}

/* Also of a buffer that has gone, as far as that is known: it may be to be marked again. */
static void take_all(struct registry *registry)
{
	for (uint64_t key = 0; fdstore_next(registry->fdstore, &key);) {
		uint64_t generation = key & ~PAGE;

		if (key & PAGE &&
		    (generation > registry->since || order_find(registry, generation) ||
		     store_find_generation(&registry->store, generation)))
			take(registry, generation);
	}
}

void order_restore(struct registry *registry)
{
	struct order *order, *after;

	take_all(registry);
	HASH_ITER (hh, registry->orders, order, after) {
		participant_restore(order);
		if (order->page)
			order_look_over(registry, order);
		if (store_find_generation(&registry->store, order->generation) ||
		    is_unheard_of(registry, order))
			order_check(registry, order->generation);
		else
			order_end(registry, order->generation);
	}
}

void order_let_go(struct registry *registry)
{
	struct order *order;

	for (order = registry->orders; order; order = order->hh.next) {
		order_unmark(registry, order);
		order_page_unmap(order->page);
		order->page = NULL;
	}
}

void order_finish(struct registry *registry)
{
	while (registry->orders)
		order_free(registry, registry->orders);
}
