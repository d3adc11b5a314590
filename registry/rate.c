/* SPDX-License-Identifier: MIT */
#include "rate.h"

#include "os/clock.h"
#include "events.h"
#include "order/order.h"

/* Whole publications a second, rounded up: what goes on at all is not told as 0. */
static uint64_t a_second(uint64_t count, int64_t elapsed_ns)
{
	double rate = (double)count * (double)NS_PER_S / (double)elapsed_ns;

	return rate < 1 ? 1 : (uint64_t)(rate + 0.5);
}

void rate_tick(struct registry *registry, int64_t elapsed_ns)
{
	struct order *order, *after;

	HASH_ITER (hh, registry->orders, order, after) {
		const struct entry *entry =
		    store_find_generation(&registry->store, order->generation);
		uint64_t published = order->page ? order_published(order->page) : order->rated;

		if (entry && elapsed_ns > 0 && published > order->rated)
			events_published(registry, entry, published,
					 a_second(published - order->rated, elapsed_ns));
		order->rated = published;
	}
}
