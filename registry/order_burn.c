/* SPDX-License-Identifier: MIT */
/* Slots whose consumer has gone, and whose process's GPU may write to them at any time: they are
 * nobody else's as long as that process lives. */
#include <stdlib.h>

#include "note.h"
#include "order_page.h"

static struct burn *burn_new(struct order_place *place, const struct process *process)
{
	struct burn *burn = place->burn ? place->burn : calloc(1, sizeof(*burn));

	place->burn = burn;
	if (burn)
		burn->process = *process;
	else
		place->free_ns = INT64_MAX;
	return burn;
}

void burn_add(struct registry *registry, struct order *order, uint32_t slot,
	      const struct process *process)
{
	if (burn_new(&order->place[slot - 1], process))
		note_burn(registry, order, slot);
}

void burn_replay(struct registry *registry, uint64_t generation, uint32_t slot,
		 const struct process *process)
{
	struct order *order = order_find(registry, generation);

	if (!slot || slot > ORDER_SLOTS ||
	    (!order && order_open(registry, generation, false, &order)))
		return;
	burn_new(&order->place[slot - 1], process);
}

void burn_end(struct registry *registry, struct order_place *place)
{
	if (!place->burn)
		return;
	registry->journal.live -= place->burn->noted;
	free(place->burn);
	place->burn = NULL;
}

/* Of one that isn't visible nobody tells that it has gone. */
bool burn_stands(struct registry *registry, struct order_place *place)
{
	if (!place->burn)
		return false;
	if (place->burn->process.pid <= 0 || process_lives(&place->burn->process))
		return true;
	burn_end(registry, place);
	return false;
}
