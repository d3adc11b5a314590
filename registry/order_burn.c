/* SPDX-License-Identifier: MIT */
/* Slots whose consumer has gone, and whose process's GPU may still write to them: they are nobody
 * else's until it has, or that process has ended. */
#include <stdlib.h>

#include "note.h"
#include "order_page.h"

static bool burn_set(struct order_place *place, const struct process *process, uint64_t settles)
{
	struct burn *burn = place->burn ? place->burn : calloc(1, sizeof(*burn));

	place->burn = burn;
	if (!burn) {
		place->free_ns = INT64_MAX;
		return false;
	}
	burn->process = *process;
	burn->settles = settles;
	return true;
}

void burn_add(struct registry *registry, struct order *order, uint32_t slot,
	      const struct process *process, uint64_t settles)
{
	if (burn_set(&order->place[slot - 1], process, settles))
		note_burn(registry, order, slot);
}

void burn_end(struct registry *registry, struct order_place *place)
{
	if (!place->burn)
		return;
	note_burn_end(registry, place->burn);
	free(place->burn);
	place->burn = NULL;
}

struct burn *burn_replay(struct registry *registry, uint64_t generation, uint32_t slot,
			 const struct process *process, uint64_t settles)
{
	struct order *order = order_find(registry, generation);

	if (!slot || slot > ORDER_SLOTS ||
	    (!order && order_open(registry, generation, false, &order)))
		return NULL;
	burn_set(&order->place[slot - 1], process, settles);
	return order->place[slot - 1].burn;
}

static bool has_settled(const struct order *order, uint32_t at)
{
	uint64_t settles = order->place[at].burn->settles;

	return settles && order->page &&
	       order_reaches(atomic_load(&order->page->slot[at].released), settles - 1);
}

/* Of one that isn't visible nobody tells that it has gone. */
bool burn_stands(struct registry *registry, struct order *order, uint32_t at)
{
	struct order_place *place = &order->place[at];

	if (!place->burn)
		return false;
	if (!has_settled(order, at) &&
	    (place->burn->process.pid <= 0 || process_lives(&place->burn->process)))
		return true;
	burn_end(registry, place);
	return false;
}
