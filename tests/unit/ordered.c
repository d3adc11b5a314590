/* SPDX-License-Identifier: MIT */
#include "ordered.h"

#include "unit.h"

#include "os/clock.h"

int ordered_ask(struct session *session, const char *name, uint64_t generation, uint32_t roles)
{
	request what = raw_order(name, generation, roles);

	return peer_ask(session, &what);
}

int ordered_leave(struct session *session, const char *name, uint64_t generation, uint32_t roles,
		  uint64_t final)
{
	const struct order *order = order_find(peer_registry, generation);
	const struct participant *participant = order ? participant_find(order, session) : NULL;
	request what = raw_order(name, generation, roles);

	if (participant && participant->slot)
		atomic_store(&order->page->slot[participant->slot - 1].final, final);
	what.verb.order.leave = true;
	return peer_ask(session, &what);
}

int ordered_bring(struct session *session, const char *name, uint64_t generation, uint32_t roles,
		  uint64_t id, uint32_t slot, int fd)
{
	request what = raw_order(name, generation, roles);

	what.verb.order.again = id;
	what.verb.order.slot = slot;
	peer_goes = fd;
	return peer_ask(session, &what);
}

struct order_page *ordered_page(uint64_t generation)
{
	struct order *found = order_find(peer_registry, generation);

	assert_non_null(found);
	assert_non_null(found->page);
	return found->page;
}
