/* SPDX-License-Identifier: MIT */
/* order: a buffer's stream-sync page, and the peer's roles in it. */
#include <inttypes.h>

#include "order/order.h"
#include "os/clock.h"
#include "verbs/call.h"

#define ROLES ((uint32_t)(ORDER_CONSUMES | ORDER_PUBLISHES))

static const char *const role_names[ROLES + 1] = {
    [0] = "nothing",
    [ORDER_CONSUMES] = "consumer",
    [ORDER_PUBLISHES] = "publisher",
    [ROLES] = "consumer and publisher",
};

/* Whether a buffer that the registry doesn't know may be from before the registry's restart, so
 * that the buffer's owner may still resync. */
static bool is_awaited(const struct call *call)
{
	const struct registry *registry = call->registry;
	uint64_t generation = call->ask->verb.order.generation;
	const struct order *order = order_find(registry, generation);

	/* A wrong name for a known generation must not skip the checks of its buffer. */
	if (store_find_generation(&call->state->store, generation) || call_find(call, 0) ||
	    call_find_gone(call) || buffer_has_gone(call->state, call->name, generation))
		return false;
	return clock_ns() < registry->unseen_until_ns || (order && order->awaited_ns);
}

/* Also OK without an entry, if the owner may still resync and the peer is an attacher that resumes
 * its roles. */
static int check_entry(const struct call *call, const struct entry *entry)
{
	const gpushare_Order *ask = &call->ask->verb.order;
	bool attached = session_find_attachment(call->session, ask->generation);

	if (entry && order_may(entry, call->session) &&
	    (access_of(call->session, entry) & ACCESS_READ))
		return GPUSHARE_OK;
	if (entry && access_sees(call->session, entry))
		return refuse(call, GPUSHARE_E_DENIED,
			      "this connection neither shares \"%s\" nor has it attached",
			      call->name);
	if (entry || !(attached || call->registry->is_system) || !is_awaited(call))
		return explain_other(call, ask->generation);
	if (ask->again && attached)
		return GPUSHARE_OK;
	return refuse(call, GPUSHARE_E_TIMED_OUT,
		      "\"%s\" was shared before the registry restarted, and its owner has not "
		      "resynced yet; try again",
		      call->name);
}

static int check_publisher(const struct call *call, const struct entry *entry,
			   const struct order *order)
{
	const struct session *session = call->session;
	const struct participant *rival = participant_rival(order, session);

	if (entry && entry->info.flags & GPUSHARE_FLAG_READONLY &&
	    !process_is_same(entry_owner(entry), &session->peer))
		return refuse(call, GPUSHARE_E_READ_ONLY,
			      "\"%s\" is read-only: only its owner publishes it", call->name);
	if (entry && !(access_of(session, entry) & ACCESS_WRITE))
		return explain_rights(call, entry, "may only read it",
				      "publishing needs the right to write");
	if (rival)
		return refuse(call, GPUSHARE_E_DENIED,
			      "\"%s\" is published by process %" PRId32
			      " (%s): only one process at a time can publish it",
			      call->name, rival->session->peer.pid, rival->session->peer.command);
	if (participant_is_under_way(call->registry, order, session))
		return refuse(call, GPUSHARE_E_DENIED,
			      "the process that published \"%s\" has left, but its GPU may still "
			      "write to it; try again in %d seconds",
			      call->name, LIMIT_ORDER_SETTLE_MS / 1000);
	return GPUSHARE_OK;
}

static int explain_failed(const struct call *call, int status)
{
	if (status == GPUSHARE_E_LIMIT)
		return refuse(call, status,
			      "\"%s\" has no free slot or no page: a buffer has at most %d "
			      "consumers, and one that left counts until its GPU is done; or "
			      "the registry has no file descriptor left (descriptors and "
			      "user_descriptors in registry.conf)",
			      call->name, (int)ORDER_SLOTS);
	if (status == GPUSHARE_E_TIMED_OUT)
		return refuse(call, status,
			      "the stream-sync page of \"%s\" was lost with the keeper, and its "
			      "participants have not brought it back yet; try again",
			      call->name);
	return status;
}

/* The peer sends the page that was lost in a restart. true: the order has taken the page. */
static bool take_back(const struct call *call, struct order *order)
{
	const struct passing *passing = call->registry->passing;

	if (!passing || !passing->came || !order_give_back(call->registry, order, passing->came))
		return false;
	call_take(call);
	return true;
}

/* Also OK if the buffer or the participant is gone. */
static int leave(const struct call *call)
{
	const gpushare_Order *ask = &call->ask->verb.order;
	struct order *order = order_find(call->registry, ask->generation);
	struct participant *participant = order ? participant_find(order, call->session) : NULL;

	if (participant)
		participant_part(call->registry, participant, ask->roles);
	order_check(call->registry, ask->generation);
	return GPUSHARE_OK;
}

static int join(const struct call *call, const struct entry *entry, struct order *order)
{
	const gpushare_Order *ask = &call->ask->verb.order;
	gpushare_OrderReply *body = &call->answer->body.order;
	const struct participant *participant;
	int status = GPUSHARE_OK;

	if (ask->roles & ORDER_PUBLISHES)
		status = check_publisher(call, entry, order);
	if (status)
		return status;
	if (!ask->again)
		call_give(call, order->fdref);
	/* Only a client that resumes its roles asks for a certain slot. */
	status = participant_add(call->registry, order, call->session, ask->roles,
				 ask->again ? ask->slot : 0, &body->first);
	if (status)
		return explain_failed(call, status);
	participant = participant_find(order, call->session);
	body->id = order->page->id;
	body->slot = participant ? participant->slot : 0;
	call_log(call, "order", "\"%s\" as %s, slot %" PRIu32, call->name, role_names[ask->roles],
		 body->slot);
	return GPUSHARE_OK;
}

int handle_order(struct call *call)
{
	const gpushare_Order *ask = &call->ask->verb.order;
	struct registry *registry = call->registry;
	const struct entry *entry = buffer_find(call->state, call->name, ask->generation);
	struct order *order;
	bool came = false;
	int status;

	if (ask->roles & ~ROLES)
		return explain_protocol(call);
	if (ask->leave)
		return leave(call);
	status = check_entry(call, entry);
	if (!status && !ask->again)
		status = check_socket(call);
	if (status)
		return status;
	status = order_open(registry, ask->generation, !ask->again, &order);
	if (status)
		return explain_failed(call, status);
	if (ask->again)
		came = take_back(call, order);
	if (!order->page || (ask->again && order->page->id != ask->again))
		call->answer->body.order.id = order->page ? order->page->id : 0;
	else
		status = join(call, entry, order);
	if (came)
		order_check(registry, ask->generation);
	else if (!entry && !order->page)
		order_free(registry, order); /* made again for a peer that sends the page */
	return status;
}
