/* SPDX-License-Identifier: MIT */
/* Publishers and consumers of a buffer. */
#include <stdlib.h>

#include "order/order.h"
#include "os/clock.h"

#define COOL_NS (LIMIT_ORDER_SETTLE_MS * NS_PER_MS)
/* A process's number is its start time and its pid; see proc(5) for the most that a pid can be. */
#define PIDS 4194304u
/* set: the rest is a hash of what the process says of itself */
#define INVISIBLE (UINT64_C(1) << 63)

struct participant *participant_find(const struct order *order, const struct session *session)
{
	struct participant *participant;

	DL_FOREACH (order->participants, participant) {
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

uint64_t participant_number(const struct process *peer)
{
	if (peer->pid > 0)
		return peer->started * PIDS + (uint32_t)peer->pid;
	return INVISIBLE | (peer->own_namespace * 1099511628211u + peer->own_started * PIDS +
			    (uint32_t)peer->own_pid);
}

bool participant_is_here(const struct registry *registry, uint64_t number)
{
	const struct session *session = registry->state.sessions.by_id;

	while (session && (session->ending || participant_number(&session->peer) != number))
		session = session->hh.next;
	return session;
}

bool participant_has_ended(uint64_t number, uint64_t stack)
{
	const struct process process = {
	    .pid = (int32_t)(number % PIDS), .started = number / PIDS, .stack = stack};

	return number && !(number & INVISIBLE) && !process_lives(&process);
}

bool participant_lives(const struct registry *registry, uint64_t number, uint64_t stack)
{
	return number & INVISIBLE ? participant_is_here(registry, number)
				  : number && !participant_has_ended(number, stack);
}

/* Clears the stack first: even if this is interrupted, no number is paired with another process's
 * stack. */
static void sign(_Atomic uint64_t *number, _Atomic uint64_t *stack, const struct process *peer)
{
	atomic_store(stack, 0);
	atomic_store(number, participant_number(peer));
	atomic_store(stack, peer->stack);
}

void participant_sign(const struct participant *participant)
{
	struct order_page *page = participant->order->page;
	const struct process *peer = &participant->session->peer;

	if (page && (participant->roles & ORDER_PUBLISHES))
		sign(&page->publisher, &page->publisher_stack, peer);
	if (page && participant->slot)
		sign(&page->slot[participant->slot - 1].process,
		     &page->slot[participant->slot - 1].stack, peer);
}

bool participant_may_release(const struct registry *registry, const struct order_slot *slot)
{
	uint64_t number = atomic_load(&slot->process);

	if (participant_lives(registry, number, atomic_load(&slot->stack)))
		return true;
	return (number & INVISIBLE) && atomic_load(&slot->final) == ORDER_UNSETTLED;
}

/* Is `number`, read from the page, one of the numbers that `peer` may have? A registry in another
 * pid namespace may have written another number for it. True also for 0 (no process). */
static bool is_number_of(uint64_t number, const struct process *peer)
{
	const struct process own = {.pid = peer->own_pid, .started = peer->own_started};
	struct process unseen = *peer;

	unseen.pid = 0;
	return !number || number == participant_number(peer) ||
	       number == participant_number(&unseen) ||
	       (own.pid > 0 && number == participant_number(&own));
}

/* A client that lost its connection resumes the slot that it had. */
static int consume(const struct registry *registry, struct participant *participant, uint32_t slot)
{
	struct order *order = participant->order;
	uint64_t number = participant_number(&participant->session->peer);
	bool resumes = slot && slot <= ORDER_SLOTS && !order->slot[slot - 1].taken &&
		       is_number_of(atomic_load(&order->page->slot[slot - 1].process),
				    &participant->session->peer);

	if (!resumes)
		slot = order_free_slot(order, registry->state.now_ns);
	if (!slot)
		return GPUSHARE_E_LIMIT;
	order->slot[slot - 1].taken = true;
	participant->slot = slot;
	if (resumes)
		order_rejoin(order->page, slot - 1, number);
	else
		order_join(order->page, slot - 1, number);
	return GPUSHARE_OK;
}

/* A program that was started by exec() begins as a new publisher. */
static void begin(struct order_page *page, const struct process *peer)
{
	const struct process last = {.stack = atomic_load(&page->publisher_stack)};

	if (process_is_other_program(&last, peer))
		atomic_store(&page->publisher, 0);
	order_begin(page, participant_number(peer));
}

static int take_roles(struct registry *registry, struct participant *participant, uint32_t roles,
		      uint32_t slot)
{
	struct order *order = participant->order;

	if ((roles & ORDER_CONSUMES) && consume(registry, participant, slot))
		return GPUSHARE_E_LIMIT;
	if (roles & ORDER_PUBLISHES) {
		begin(order->page, &participant->session->peer);
		order->left = order->gone = false;
	}
	participant->roles |= roles;
	participant_sign(participant);
	state_emit(&registry->state, .kind = CHANGE_ROLES, .participant = participant);
	return GPUSHARE_OK;
}

int participant_add(struct registry *registry, struct order *order, struct session *session,
		    uint32_t roles, uint32_t slot, uint64_t *out_first)
{
	struct participant *participant = participant_find(order, session);
	int status = GPUSHARE_OK;

	*out_first = 0;
	if (!roles)
		return GPUSHARE_OK;
	if (!participant)
		participant = participant_new(order, session);
	if (!participant)
		return GPUSHARE_E_NO_MEMORY;
	roles &= ~participant->roles;
	if (roles)
		status = take_roles(registry, participant, roles, slot);
	if (participant->slot)
		*out_first = order_number(order->page->slot[participant->slot - 1].released) + 1;
	if (!participant->roles)
		participant_free(participant);
	return status;
}

void participant_part(struct registry *registry, struct participant *participant, uint32_t roles)
{
	struct order *order = participant->order;
	struct order_page *page = order->page;

	roles &= participant->roles;
	if (roles & ORDER_CONSUMES) {
		order->slot[participant->slot - 1].taken = false;
		order->slot[participant->slot - 1].free_ns = INT64_MAX;
		if (page)
			order_mark_left(page, participant->slot - 1);
		if (page && !order_slot_is_final(&page->slot[participant->slot - 1]))
			order_mark_again(registry, order);
		participant->slot = 0;
	}
	if (roles & ORDER_PUBLISHES) {
		order->left = true;
		order->under_way_ns = clock_ns() + COOL_NS;
	}
	participant->roles &= ~roles;
	state_emit(&registry->state, .kind = CHANGE_ROLES, .participant = participant);
	if (!participant->roles)
		participant_free(participant);
}

const struct participant *participant_rival(const struct order *order,
					    const struct session *session)
{
	const struct participant *participant;

	DL_FOREACH (order->participants, participant) {
		if ((participant->roles & ORDER_PUBLISHES) &&
		    !(session && process_is_same(&participant->session->peer, &session->peer)))
			return participant;
	}
	return NULL;
}

/* The last publisher has assigned numbers that are not published, or one of its graphs may publish
 * at any time. */
static bool is_under_way(const struct order_page *page)
{
	return atomic_load(&page->turn) || atomic_load(&page->late) ||
	       !order_reaches(atomic_load(&page->published), atomic_load(&page->next));
}

bool participant_is_under_way(const struct registry *registry, const struct order *order,
			      const struct session *session)
{
	uint64_t last = order->page ? atomic_load(&order->page->publisher) : 0;

	return last && last != participant_number(&session->peer) &&
	       clock_ns() < order->under_way_ns && is_under_way(order->page) &&
	       participant_lives(registry, last, atomic_load(&order->page->publisher_stack));
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
	if (participant->slot) /* this record is newer */
		order->slot[participant->slot - 1].taken = false;
	if (!slot || order->slot[slot - 1].taken)
		roles &= ~(uint32_t)ORDER_CONSUMES;
	participant->roles = roles;
	participant->slot = roles & ORDER_CONSUMES ? slot : 0;
	if (participant->slot)
		order->slot[slot - 1].taken = true;
	return participant;
}

void participant_see(struct session *session, const struct process *peer)
{
	const struct participant *participant;

	session->peer = *peer;
	DL_FOREACH2 (session->participants, participant, session_next) {
		participant_sign(participant);
	}
}

void participant_move_all(struct session *from, struct session *to)
{
	struct participant *participant;

	to->participants = from->participants;
	from->participants = NULL;
	DL_FOREACH2 (to->participants, participant, session_next) {
		participant->session = to;
		participant_sign(participant);
	}
}
