/* SPDX-License-Identifier: MIT */
/* Who is what to the order of a buffer. */
#include <stdlib.h>

#include "os/clock.h"
#include "os/log.h"
#include "note.h"
#include "order_page.h"

#define COOL_NS (LIMIT_ORDER_SETTLE_MS * NS_PER_MS)

struct player *player_find(const struct order *order, const struct lease *lease)
{
	struct player *player;

	DL_FOREACH(order->players, player)
	{
		if (player->lease == lease)
			return player;
	}
	return NULL;
}

static struct player *player_new(struct order *order, struct lease *lease)
{
	struct player *player = calloc(1, sizeof(*player));

	if (!player)
		return NULL;
	player->lease = lease;
	player->order = order;
	DL_APPEND(order->players, player);
	DL_APPEND2(lease->players, player, lease_prev, lease_next);
	return player;
}

static void player_free(struct player *player)
{
	DL_DELETE(player->order->players, player);
	DL_DELETE2(player->lease->players, player, lease_prev, lease_next);
	free(player);
}

/* From 1 on; 0: all are taken, or were until a moment ago. The lowest, so that few are looked at. */
static uint32_t free_slot(struct registry *registry, struct order *order)
{
	int64_t now = clock_ns();

	for (uint32_t at = 0; at < ORDER_SLOTS; at++) {
		const struct order_place *place = &order->place[at];

		if (!place->taken && place->free_ns <= now && !burn_stands(registry, order, at))
			return at + 1;
	}
	return 0;
}

/* The slot that it has had stays as it is, where nobody else has it. */
static int consume(struct registry *registry, struct player *player, uint32_t slot,
		   uint64_t *out_first)
{
	struct order *order = player->order;
	bool again = slot && slot <= ORDER_SLOTS && !order->place[slot - 1].taken;

	if (!again)
		slot = free_slot(registry, order);
	if (!slot)
		return GPUSHARE_E_LIMIT;
	order->place[slot - 1].taken = true;
	order->place[slot - 1].missed = false;
	player->slot = slot;
	if (again)
		order_rejoin(order->page, slot - 1);
	else
		*out_first = order_join(order->page, slot - 1);
	return GPUSHARE_OK;
}

uint64_t player_number(const struct process *peer)
{
	uint64_t number = peer->started * 4194304u + (uint32_t)peer->pid;

	if (!peer->pid)
		number = peer->own_namespace * 1099511628211u + peer->own_started * 4194304u +
			 (uint32_t)peer->own_pid;
	return number ? number : 1;
}

/* As pages have it so far. */
static uint64_t number_of(const struct lease *lease)
{
	return lease->number ? lease->number : player_number(&lease->peer);
}

bool player_published_last(const struct order *order, const struct lease *lease)
{
	return order->page && atomic_load(&order->page->publisher) == number_of(lease);
}

bool player_publisher_is_here(const struct registry *registry, const struct order *order)
{
	const struct lease *lease = registry->leases.by_id;

	while (lease && (lease->ending || !player_published_last(order, lease)))
		lease = lease->hh.next;
	return lease;
}

static int take_roles(struct registry *registry, struct player *player, uint32_t roles,
		      uint32_t slot, uint64_t *out_first)
{
	struct order *order = player->order;
	int status = GPUSHARE_OK;

	if ((roles & ORDER_CONSUMES) && !(player->roles & ORDER_CONSUMES))
		status = consume(registry, player, slot, out_first);
	else if (roles & ORDER_CONSUMES)
		*out_first =
		    order_number(atomic_load(&order->page->slot[player->slot - 1].released)) + 1;
	if (status)
		return status;
	if ((roles & ORDER_PUBLISHES) && !(player->roles & ORDER_PUBLISHES)) {
		order_begin(order->page, player_number(&player->lease->peer));
		order->left = order->gone = false;
	}
	player->roles |= roles;
	return GPUSHARE_OK;
}

int player_add(struct registry *registry, struct order *order, struct lease *lease, uint32_t roles,
	       uint32_t slot, uint64_t *out_first)
{
	struct player *player = player_find(order, lease);
	uint32_t before = player ? player->roles : 0;
	int status;

	*out_first = 0;
	if (!roles)
		return GPUSHARE_OK;
	if (!player)
		player = player_new(order, lease);
	if (!player)
		return GPUSHARE_E_NO_MEMORY;
	status = take_roles(registry, player, roles, slot, out_first);
	if (player->roles != before)
		note_player(registry, player);
	else if (!before)
		player_free(player);
	return status;
}

/* What is left in order is another one's at once: what a stream waits for there is behind what can't
 * be joined for any more. */
static void leave_slot(struct registry *registry, struct player *player, enum parting how,
		       uint64_t settles)
{
	const struct process *process = &player->lease->peer;
	struct order *order = player->order;
	struct order_place *place = &order->place[player->slot - 1];

	place->taken = false;
	place->missed = !order->page;
	place->free_ns = how == PARTING_SETTLED ? 0 : clock_ns() + COOL_NS;
	if (how == PARTING_UNSETTLED || (how == PARTING_DEATH && process_lives(process)))
		burn_add(registry, order, player->slot, process, settles);
	if (order->page && order_mark_left(order->page, player->slot - 1))
		order_mark_soon(registry, order);
	player->slot = 0;
}

bool player_is_unsettled(const struct order *order)
{
	return clock_ns() < order->settled_ns &&
	       (order->leaver.pid <= 0 || process_lives(&order->leaver));
}

/* Of who says nothing the page says whether something is under way. */
static void stop_publishing(const struct player *player, enum parting how)
{
	struct order *order = player->order;

	order->left = true;
	if (how == PARTING_SETTLED ||
	    (how == PARTING_DEATH && order->page && !order_is_under_way(order->page)))
		return;
	order->settled_ns = clock_ns() + COOL_NS;
	order->leaver = player->lease->peer;
}

void player_part(struct registry *registry, struct player *player, uint32_t roles, enum parting how,
		 uint64_t settles)
{
	roles &= player->roles;
	if ((roles & ORDER_CONSUMES) && player->slot)
		leave_slot(registry, player, how, settles);
	if (roles & ORDER_PUBLISHES)
		stop_publishing(player, how);
	player->roles &= ~roles;
	note_player(registry, player);
	if (!player->roles)
		player_free(player);
}

void player_end(struct registry *registry, struct player *player)
{
	player_part(registry, player, player->roles, PARTING_DEATH, 0);
}

const struct player *player_rival(const struct order *order, const struct lease *lease)
{
	const struct player *player;

	DL_FOREACH(order->players, player)
	{
		if ((player->roles & ORDER_PUBLISHES) &&
		    !process_is_same(&player->lease->peer, &lease->peer))
			return player;
	}
	return NULL;
}

struct player *player_replay(struct registry *registry, struct lease *lease, uint64_t generation,
			     uint32_t roles, uint32_t slot)
{
	struct order *order = order_find(registry, generation);
	struct player *player;

	if (slot > ORDER_SLOTS || (!order && order_open(registry, generation, false, &order)))
		return NULL;
	player = player_find(order, lease);
	if (!player)
		player = player_new(order, lease);
	if (!player)
		return NULL;
	player->roles = roles;
	player->slot = roles & ORDER_CONSUMES ? slot : 0;
	return player;
}

/* Two can't have one slot, whatever the records say. */
void player_restore(struct order *order)
{
	struct player *player;

	DL_FOREACH(order->players, player)
	{
		struct order_place *place = player->slot ? &order->place[player->slot - 1] : NULL;

		if (place && place->taken)
			player->slot = 0;
		else if (place)
			place->taken = true;
		if (!player->slot)
			player->roles &= ~(uint32_t)ORDER_CONSUMES;
	}
}

/* Who publishes may be seen from another pid namespace than before. */
static void renumber(const struct player *player, uint64_t before)
{
	struct order_page *page = player->order->page;

	if (page && player->roles & ORDER_PUBLISHES)
		atomic_compare_exchange_strong(&page->publisher, &before,
					       player_number(&player->lease->peer));
}

static bool misses_page(const struct lease *lease)
{
	const struct player *player;

	DL_FOREACH2(lease->players, player, lease_next)
	{
		if (player->roles & ORDER_PUBLISHES && !player->order->page)
			return true;
	}
	return false;
}

void player_see(struct lease *lease, const struct process *peer)
{
	uint64_t before = number_of(lease);
	struct player *player;

	lease->peer = *peer;
	lease->number = misses_page(lease) ? before : 0;
	if (lease->number)
		return;
	DL_FOREACH2(lease->players, player, lease_next)
	{
		renumber(player, before);
	}
}

void player_move_all(struct lease *from, struct lease *to)
{
	struct player *player;

	to->players = from->players;
	from->players = NULL;
	DL_FOREACH2(to->players, player, lease_next)
	{
		player->lease = to;
		renumber(player, number_of(from));
	}
}
