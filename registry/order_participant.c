/* SPDX-License-Identifier: MIT */
/* Who is what to the order of a buffer. */
#include <stdlib.h>

#include "os/clock.h"
#include "os/log.h"
#include "save.h"
#include "order_page.h"

#define COOL_NS (LIMIT_ORDER_SETTLE_MS * NS_PER_MS)

struct participant *participant_find(const struct order *order, const struct session *session)
{
	struct participant *participant;

	DL_FOREACH(order->participants, participant)
	{
		if (participant->session == session)
			return participant;
	}
	return NULL;
}

static struct participant *participant_new(struct order *order, struct session *session)
{
	struct participant *participant = calloc(1, sizeof(*participant));

	if (!participant)
		return NULL;
	participant->session = session;
	participant->order = order;
	DL_APPEND(order->participants, participant);
	DL_APPEND2(session->participants, participant, session_prev, session_next);
	return participant;
}

static void participant_free(struct participant *participant)
{
	DL_DELETE(participant->order->participants, participant);
	DL_DELETE2(participant->session->participants, participant, session_prev, session_next);
	free(participant);
}

/* From 1 on; 0: all are taken, or were until a moment ago. The lowest, so that few are looked at. */
static uint32_t free_slot(struct registry *registry, struct order *order)
{
	int64_t now = clock_ns();

	for (uint32_t at = 0; at < ORDER_SLOTS; at++) {
		const struct order_place *place = &order->place[at];

		if (!place->taken && place->free_ns <= now &&
		    !quarantine_stands(registry, order, at))
			return at + 1;
	}
	return 0;
}

/* The slot that it has had stays as it is, where nobody else has it. */
static int consume(struct registry *registry, struct participant *participant, uint32_t slot,
		   uint64_t *out_first)
{
	struct order *order = participant->order;
	bool again = slot && slot <= ORDER_SLOTS && !order->place[slot - 1].taken;

	if (!again)
		slot = free_slot(registry, order);
	if (!slot)
		return GPUSHARE_E_LIMIT;
	order->place[slot - 1].taken = true;
	order->place[slot - 1].missed = false;
	participant->slot = slot;
	if (again)
		order_rejoin(order->page, slot - 1);
	else
		*out_first = order_join(order->page, slot - 1);
	return GPUSHARE_OK;
}

uint64_t participant_number(const struct process *peer)
{
	uint64_t number = peer->started * 4194304u + (uint32_t)peer->pid;

	if (!peer->pid)
		number = peer->own_namespace * 1099511628211u + peer->own_started * 4194304u +
			 (uint32_t)peer->own_pid;
	return number ? number : 1;
}

/* As pages have it so far. */
static uint64_t number_of(const struct session *session)
{
	return session->number ? session->number : participant_number(&session->peer);
}

bool participant_published_last(const struct order *order, const struct session *session)
{
	return order->page && atomic_load(&order->page->publisher) == number_of(session);
}

bool participant_publisher_is_here(const struct registry *registry, const struct order *order)
{
	const struct session *session = registry->sessions.by_id;

	while (session && (session->ending || !participant_published_last(order, session)))
		session = session->hh.next;
	return session;
}

static int take_roles(struct registry *registry, struct participant *participant, uint32_t roles,
		      uint32_t slot, uint64_t *out_first)
{
	struct order *order = participant->order;
	int status = GPUSHARE_OK;

	if ((roles & ORDER_CONSUMES) && !(participant->roles & ORDER_CONSUMES))
		status = consume(registry, participant, slot, out_first);
	else if (roles & ORDER_CONSUMES)
		*out_first =
		    order_number(atomic_load(&order->page->slot[participant->slot - 1].released)) +
		    1;
	if (status)
		return status;
	if ((roles & ORDER_PUBLISHES) && !(participant->roles & ORDER_PUBLISHES)) {
		order_begin(order->page, participant_number(&participant->session->peer));
		order->left = order->gone = false;
	}
	participant->roles |= roles;
	return GPUSHARE_OK;
}

int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first)
{
	struct participant *participant = participant_find(order, session);
	uint32_t before = participant ? participant->roles : 0;
	int status;

	*out_first = 0;
	if (!roles)
		return GPUSHARE_OK;
	if (!participant)
		participant = participant_new(order, session);
	if (!participant)
		return GPUSHARE_E_NO_MEMORY;
	status = take_roles(registry, participant, roles, slot, out_first);
	if (participant->roles != before)
		save_participant(registry, participant);
	else if (!before)
		participant_free(participant);
	return status;
}

/* What is left in order is another one's at once: what a stream waits for there is behind what can't
 * be joined for any more. */
static void leave_slot(struct registry *registry, struct participant *participant, enum parting how,
		       uint64_t settles)
{
	const struct process *process = &participant->session->peer;
	struct order *order = participant->order;
	struct order_place *place = &order->place[participant->slot - 1];

	place->taken = false;
	place->missed = !order->page;
	place->free_ns = how == PARTING_SETTLED ? 0 : clock_ns() + COOL_NS;
	if (how == PARTING_UNSETTLED || (how == PARTING_DEATH && process_lives(process)))
		quarantine_add(registry, order, participant->slot, process, settles);
	if (order->page && order_mark_left(order->page, participant->slot - 1))
		order_mark_soon(registry, order);
	participant->slot = 0;
}

bool participant_is_unsettled(const struct order *order)
{
	return clock_ns() < order->settled_ns &&
	       (order->leaver.pid <= 0 || process_lives(&order->leaver));
}

/* Of who says nothing the page says whether something is under way. */
static void stop_publishing(const struct participant *participant, enum parting how)
{
	struct order *order = participant->order;

	order->left = true;
	if (how == PARTING_SETTLED ||
	    (how == PARTING_DEATH && order->page && !order_is_under_way(order->page)))
		return;
	order->settled_ns = clock_ns() + COOL_NS;
	order->leaver = participant->session->peer;
}

void participant_part(struct registry *registry, struct participant *participant, uint32_t roles,
		      enum parting how, uint64_t settles)
{
	roles &= participant->roles;
	if ((roles & ORDER_CONSUMES) && participant->slot)
		leave_slot(registry, participant, how, settles);
	if (roles & ORDER_PUBLISHES)
		stop_publishing(participant, how);
	participant->roles &= ~roles;
	save_participant(registry, participant);
	if (!participant->roles)
		participant_free(participant);
}

void participant_end(struct registry *registry, struct participant *participant)
{
	participant_part(registry, participant, participant->roles, PARTING_DEATH, 0);
}

const struct participant *participant_rival(const struct order *order,
					    const struct session *session)
{
	const struct participant *participant;

	DL_FOREACH(order->participants, participant)
	{
		if ((participant->roles & ORDER_PUBLISHES) &&
		    !process_is_same(&participant->session->peer, &session->peer))
			return participant;
	}
	return NULL;
}

struct participant *participant_load(struct registry *registry, struct session *session,
				     uint64_t generation, uint32_t roles, uint32_t slot)
{
	struct order *order = order_find(registry, generation);
	struct participant *participant;

	if (slot > ORDER_SLOTS || (!order && order_open(registry, generation, false, &order)))
		return NULL;
	participant = participant_find(order, session);
	if (!participant)
		participant = participant_new(order, session);
	if (!participant)
		return NULL;
	participant->roles = roles;
	participant->slot = roles & ORDER_CONSUMES ? slot : 0;
	return participant;
}

/* Two can't have one slot, whatever the records say. */
void participant_restore(struct order *order)
{
	struct participant *participant;

	DL_FOREACH(order->participants, participant)
	{
		struct order_place *place =
		    participant->slot ? &order->place[participant->slot - 1] : NULL;

		if (place && place->taken)
			participant->slot = 0;
		else if (place)
			place->taken = true;
		if (!participant->slot)
			participant->roles &= ~(uint32_t)ORDER_CONSUMES;
	}
}

/* Who publishes may be seen from another pid namespace than before. */
static void renumber(const struct participant *participant, uint64_t before)
{
	struct order_page *page = participant->order->page;

	if (page && participant->roles & ORDER_PUBLISHES)
		atomic_compare_exchange_strong(&page->publisher, &before,
					       participant_number(&participant->session->peer));
}

static bool misses_page(const struct session *session)
{
	const struct participant *participant;

	DL_FOREACH2(session->participants, participant, session_next)
	{
		if (participant->roles & ORDER_PUBLISHES && !participant->order->page)
			return true;
	}
	return false;
}

void participant_see(struct session *session, const struct process *peer)
{
	uint64_t before = number_of(session);
	struct participant *participant;

	session->peer = *peer;
	session->number = misses_page(session) ? before : 0;
	if (session->number)
		return;
	DL_FOREACH2(session->participants, participant, session_next)
	{
		renumber(participant, before);
	}
}

void participant_move_all(struct session *from, struct session *to)
{
	struct participant *participant;

	to->participants = from->participants;
	from->participants = NULL;
	DL_FOREACH2(to->participants, participant, session_next)
	{
		participant->session = to;
		renumber(participant, number_of(from));
	}
}
