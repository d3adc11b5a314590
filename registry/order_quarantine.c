/* SPDX-License-Identifier: MIT */
/* Slots whose consumer has gone, and whose process's GPU may still write to them: they are nobody
 * else's until it has, or that process has ended. */
#include <stdlib.h>

#include "save.h"
#include "order_page.h"

static bool quarantine_set(struct order_place *place, const struct process *process,
			   uint64_t settles)
{
	struct quarantine *quarantine =
	    place->quarantine ? place->quarantine : calloc(1, sizeof(*quarantine));

	place->quarantine = quarantine;
	if (!quarantine) {
		place->free_ns = INT64_MAX;
		return false;
	}
	quarantine->process = *process;
	quarantine->settles = settles;
	return true;
}

void quarantine_add(struct registry *registry, struct order *order, uint32_t slot,
		    const struct process *process, uint64_t settles)
{
	if (quarantine_set(&order->place[slot - 1], process, settles))
		save_quarantine(registry, order, slot);
}

void quarantine_end(struct registry *registry, struct order_place *place)
{
	if (!place->quarantine)
		return;
	save_quarantine_end(registry, place->quarantine);
	free(place->quarantine);
	place->quarantine = NULL;
}

struct quarantine *quarantine_load(struct registry *registry, uint64_t generation, uint32_t slot,
				   const struct process *process, uint64_t settles)
{
	struct order *order = order_find(registry, generation);

	if (!slot || slot > ORDER_SLOTS ||
	    (!order && order_open(registry, generation, false, &order)))
		return NULL;
	quarantine_set(&order->place[slot - 1], process, settles);
	return order->place[slot - 1].quarantine;
}

static bool has_settled(const struct order *order, uint32_t at)
{
	uint64_t settles = order->place[at].quarantine->settles;

	return settles && order->page &&
	       order_reaches(atomic_load(&order->page->slot[at].released), settles - 1);
}

/* Of one that isn't visible nobody tells that it has gone. */
bool quarantine_stands(struct registry *registry, struct order *order, uint32_t at)
{
	struct order_place *place = &order->place[at];

	if (!place->quarantine)
		return false;
	if (!has_settled(order, at) &&
	    (place->quarantine->process.pid <= 0 || process_lives(&place->quarantine->process)))
		return true;
	quarantine_end(registry, place);
	return false;
}
