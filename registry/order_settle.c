/* SPDX-License-Identifier: MIT */
/* What an order page is to say of who is there, and that it goes on saying so. */
#include <sys/eventfd.h>

#include "os/clock.h"
#include "order_page.h"

#define AGAIN_MS 250 /* between two marks */
#define COOL_NS (LIMIT_ORDER_SETTLE_MS * NS_PER_MS)
#define AWAIT_NS (LIMIT_UNSEEN_S * NS_PER_S)

void order_unmark(struct registry *registry, struct order *order)
{
	if (order->marked_ns)
		DL_DELETE(registry->marking, order);
	order->marked_ns = 0;
}

void order_mark_soon(struct registry *registry, struct order *order)
{
	if (!order->marked_ns)
		DL_APPEND(registry->marking, order);
	order->marked_ns = clock_ns();
	if (registry->wake >= 0)
		eventfd_write(registry->wake, 1);
}

bool order_is_under_way(const struct order_page *page)
{
	return atomic_load(&page->turn) || atomic_load(&page->late) ||
	       !order_reaches(atomic_load(&page->published), atomic_load(&page->next));
}

static bool is_published(const struct order *order)
{
	const struct participant *participant;

	DL_FOREACH(order->participants, participant)
	{
		if (participant->roles & ORDER_PUBLISHES)
			return true;
	}
	return false;
}

/* The page names a publisher, of whom nothing is known here. */
static bool has_strange_publisher(const struct order *order)
{
	return order->page && atomic_load(&order->page->publisher) && !order->left &&
	       !is_published(order);
}

/* The page knows a consumer, of whom nothing is known here. */
static bool is_strange(const struct order *order, uint32_t at)
{
	const struct order_place *place = &order->place[at];

	return !place->taken && !place->missed &&
	       atomic_load(&order->page->slot[at].state) == ORDER_SLOT_ACTIVE;
}

/* The owner is there, and may yet publish. */
static bool has_owner(const struct entry *entry)
{
	return entry && entry->session && !entry->info.in_limbo && !entry->unsynced;
}

/* Of who publishes, or did and is here still, the numbers go on; of another one they end. */
static void revive(const struct registry *registry, struct order *order)
{
	bool here = participant_publisher_is_here(registry, order);

	order_begin(order->page, here ? atomic_load(&order->page->publisher) : 0);
}

void order_settle(struct registry *registry, struct order *order, const struct entry *entry)
{
	bool published = is_published(order);
	bool awaited = order->awaited_ns && (!entry || has_strange_publisher(order));

	order->gone = !published && !awaited && (order->left || !has_owner(entry));
	if (!order->page)
		return;
	if (order->gone && order_mark_gone(order->page))
		order_mark_soon(registry, order);
	if (!order->gone && !published && order_is_gone(order->page))
		revive(registry, order);
}

/* Which slots were used a moment ago is not known. */
static void look_over_slot(struct order *order, uint32_t at, int64_t now_ns)
{
	uint32_t state = atomic_load(&order->page->slot[at].state);
	struct order_place *place = &order->place[at];
	bool strange = is_strange(order, at);

	place->free_ns = state == ORDER_SLOT_UNUSED ? 0 : now_ns + COOL_NS;
	if (strange) {
		order->awaited_ns = now_ns + AWAIT_NS;
		place->free_ns = order->awaited_ns + COOL_NS;
	}
	if (place->missed)
		order_mark_left(order->page, at);
	place->missed = false;
}

/* It is not new. A predecessor may have had marks to make again, and ended before. */
void order_look_over(struct registry *registry, struct order *order)
{
	int64_t now = clock_ns();

	order->left |= order_is_gone(order->page);
	if (order_is_under_way(order->page)) {
		order->settled_ns = now + COOL_NS;
		order->leaver = (struct process){.pid = 0};
	}
	if (has_strange_publisher(order) ||
	    !store_find_generation(&registry->store, order->generation))
		order->awaited_ns = now + AWAIT_NS;
	for (uint32_t at = 0; at < ORDER_SLOTS; at++)
		look_over_slot(order, at, now);
	order_mark_soon(registry, order);
}

/* Who has not come back has gone. */
static void stop_waiting(struct registry *registry, struct order *order)
{
	const struct entry *entry = store_find_generation(&registry->store, order->generation);

	order->awaited_ns = 0;
	order->left |=
	    has_strange_publisher(order) && !participant_publisher_is_here(registry, order);
	if (entry)
		order_settle(registry, order, entry);
	else
		order_end(registry, order->generation); /* it is marked: it stays for that */
}

/* True: some were missing. */
static bool mark_again(struct order *order)
{
	uint32_t top = atomic_load(&order->page->top);
	bool missing = order->gone && order_mark_gone(order->page);

	for (uint32_t at = 0; at < ORDER_SLOTS && at < top; at++) {
		if (order->place[at].taken || (order->awaited_ns && is_strange(order, at)))
			continue;
		missing |= order_mark_left(order->page, at);
	}
	return missing;
}

/* A GPU may take a mark away at any time. */
static bool is_quarantined(struct registry *registry, struct order *order)
{
	uint32_t at = 0;

	while (at < ORDER_SLOTS && !quarantine_stands(registry, order, at))
		at++;
	return at < ORDER_SLOTS;
}

/* True: it needs no more marks. */
static bool is_marked(struct registry *registry, struct order *order, int64_t now_ns)
{
	if (!order->page)
		return true;
	if (order->awaited_ns && order->awaited_ns <= now_ns)
		stop_waiting(registry, order);
	if (mark_again(order))
		order->marked_ns = now_ns;
	return !order->awaited_ns && now_ns - order->marked_ns >= COOL_NS &&
	       (order->ended || !is_quarantined(registry, order));
}

int64_t order_tick(struct registry *registry, int64_t now_ns)
{
	struct order *order, *after;

	DL_FOREACH_SAFE(registry->marking, order, after)
	{
		if (!is_marked(registry, order, now_ns))
			continue;
		order_unmark(registry, order);
		if (order->ended)
			order_free(registry, order);
	}
	return registry->marking ? now_ns + AGAIN_MS * NS_PER_MS : INT64_MAX;
}
