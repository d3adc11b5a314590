/* SPDX-License-Identifier: MIT */
/* order: a buffer's order page, and what the caller is to it. */
#include <inttypes.h>
#include <string.h>

#include "permission.h"
#include "os/clock.h"
#include "explain.h"
#include "verbs/handlers.h"
#include "os/log.h"
#include "order/order.h"

#define ROLES ((uint32_t)(ORDER_CONSUMES | ORDER_PUBLISHES))

/* What nothing is known of here, and was of before the restart: its owner may be still to come. */
static bool is_awaited(const struct registry *registry, const struct session *session,
		       const gpushare_Order *ask)
{
	const struct order *order = order_find(registry, ask->generation);
	int64_t now = clock_ns();

	if (permission_find(registry, session, ask->name) ||
	    explain_tombstone(registry, session, ask->name) ||
	    buffer_has_gone(&registry->state, ask->name, ask->generation))
		return false;
	return now < registry->unseen_until_ns || (order && order->awaited_ns);
}

/* OK without an entry: of one that is awaited, whose page is brought by who has it attached. */
static int check_entry(const struct registry *registry, const struct session *session,
		       const gpushare_Order *ask, const struct entry *entry, reply *answer)
{
	bool attached = session_find_attachment(session, ask->name, ask->generation);

	if (entry && order_may(entry, session) && (access_of(session, entry) & ACCESS_READ))
		return GPUSHARE_OK;
	if (entry && access_sees(session, entry))
		return explain(answer, GPUSHARE_E_DENIED,
			       "this connection neither shares \"%s\" nor has it attached",
			       ask->name);
	if (!entry && (attached || registry->is_system) && is_awaited(registry, session, ask)) {
		if (ask->again && attached)
			return GPUSHARE_OK;
		return explain(answer, GPUSHARE_E_TIMED_OUT,
			       "\"%s\" is of before the registry's restart, and who shares it has "
			       "not told of it so far; try again",
			       ask->name);
	}
	return explain_other(answer, registry, session, ask->name, ask->generation);
}

static int check_rights(const struct session *session, const struct entry *entry, reply *answer)
{
	if ((entry->info.flags & GPUSHARE_FLAG_READONLY) &&
	    !process_is_same(&entry->owner, &session->peer))
		return explain(answer, GPUSHARE_E_READ_ONLY,
			       "\"%s\" is read-only but for its owner, who alone publishes it",
			       entry->info.name);
	if (!(access_of(session, entry) & ACCESS_WRITE))
		return explain(answer, GPUSHARE_E_DENIED,
			       "\"%s\" belongs to uid %u, its mode is %04o, and uid %u may read it "
			       "alone: who may write it publishes it",
			       entry->info.name, entry->owner.uid, (unsigned int)entry->info.mode,
			       session->peer.uid);
	return GPUSHARE_OK;
}

static int check_publisher(const struct registry *registry, const struct session *session,
			   const gpushare_Order *ask, const struct entry *entry,
			   const struct order *order, reply *answer)
{
	const struct participant *rival = participant_rival(order, session);
	int status = entry ? check_rights(session, entry, answer) : GPUSHARE_OK;

	if (status)
		return status;
	if (rival)
		return explain(answer, GPUSHARE_E_DENIED,
			       "\"%s\" is published by process %" PRId32
			       " (%s), and by one process at a time",
			       ask->name, rival->session->peer.pid, rival->session->peer.command);
	if (participant_is_under_way(registry, order, session))
		return explain(answer, GPUSHARE_E_DENIED,
			       "the process that published \"%s\" has left, but its GPU may still "
			       "be at it; try again in %d seconds",
			       ask->name, LIMIT_ORDER_SETTLE_MS / 1000);
	return GPUSHARE_OK;
}

static int explain_failed(const gpushare_Order *ask, int status, reply *answer)
{
	if (status == GPUSHARE_E_LIMIT)
		return explain(answer, status,
			       "no room is left to order \"%s\": %d consumers are all that a "
			       "buffer has, and who has left counts until its GPU is done; or the "
			       "registry holds as many file descriptors as it may (descriptors and "
			       "user_descriptors in registry.conf)",
			       ask->name, (int)ORDER_SLOTS);
	if (status == GPUSHARE_E_TIMED_OUT)
		return explain(answer, status,
			       "the order of \"%s\" was lost with the registry's keeper, and those "
			       "who have it have not given it back so far; try again",
			       ask->name);
	return explain(answer, status, "the registry is out of memory");
}

/* What the caller brings, where the registry has lost it. True: it was taken. */
static bool take_back(struct registry *registry, struct order *order)
{
	struct held *held = handle_take(registry);

	if (held && order_give_back(registry, order, held))
		return true;
	if (held)
		fdtable_release(&registry->fdtable, held);
	return false;
}

/* Of what has gone nobody is anything, and that is well. */
static int leave(struct registry *registry, const struct session *session,
		 const gpushare_Order *ask)
{
	struct order *order = order_find(registry, ask->generation);
	struct participant *participant = order ? participant_find(order, session) : NULL;

	if (participant)
		participant_part(registry, participant, ask->roles);
	order_check(registry, ask->generation);
	return GPUSHARE_OK;
}

static int join(struct registry *registry, struct session *session, const gpushare_Order *ask,
		const struct entry *entry, struct order *order, reply *answer)
{
	gpushare_OrderReply *body = &answer->body.order;
	const struct participant *participant;
	int status = GPUSHARE_OK;

	if (ask->roles & ORDER_PUBLISHES)
		status = check_publisher(registry, session, ask, entry, order, answer);
	if (status)
		return status;
	if (!ask->again)
		handle_give(registry, order->held);
	/* Only a client that comes again has a slot. */
	status = participant_add(registry, order, session, ask->roles, ask->again ? ask->slot : 0,
				 &body->first);
	if (status)
		return explain_failed(ask, status, answer);
	participant = participant_find(order, session);
	body->id = order->page->id;
	body->slot = participant ? participant->slot : 0;
	log_line("order: uid %u pid %d (%s), \"%s\", roles %" PRIu32 ", slot %" PRIu32,
		 session->peer.uid, session->peer.pid, session->peer.command, ask->name, ask->roles,
		 body->slot);
	return GPUSHARE_OK;
}

int handle_order(struct registry *registry, struct session *session, const request *ask,
		 reply *answer)
{
	const gpushare_Order *wanted = &ask->verb.order;
	const struct entry *entry = buffer_find(&registry->state, wanted->name, wanted->generation);
	struct order *order;
	bool came = false;
	int status;

	if (wanted->roles & ~ROLES)
		return handle_undecodable(GPUSHARE_E_PROTOCOL, answer);
	if (wanted->leave)
		return leave(registry, session, wanted);
	status = check_entry(registry, session, wanted, entry, answer);
	if (!status && !wanted->again)
		status = handle_check_socket(registry, answer);
	if (status)
		return status;
	answer->which_body = gpushare_Reply_order_tag;
	status = order_open(registry, wanted->generation, !wanted->again, &order);
	if (status)
		return explain_failed(wanted, status, answer);
	if (wanted->again)
		came = take_back(registry, order);
	if (!order->page || (wanted->again && order->page->id != wanted->again))
		answer->body.order.id = order->page ? order->page->id : 0;
	else
		status = join(registry, session, wanted, entry, order, answer);
	if (came)
		order_check(registry, wanted->generation);
	else if (!entry && !order->page)
		order_free(registry, order); /* until it is brought */
	return status;
}
