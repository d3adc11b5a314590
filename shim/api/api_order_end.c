/* SPDX-License-Identifier: MIT */
/* Ends roles, frees orderings with their last buffer, and tells a restarted registry about
 * orderings. */
#include "api_order.h"
#include "base/fork_check.h"
#include "base/monotonic.h"

#include <stdio.h>
#include <string.h>
#include <utlist.h>

static int fail_busy(const struct ordering *ordering, unsigned int waited_ms, const char *where)
{
	return api_fail(GPUSHARE_E_TIMED_OUT,
			"another thread has been at the order of '%s' for %u ms; is %s held up?",
			ordering->name, waited_ms, where);
}

int ordering_fail_at_driver(const struct ordering *ordering)
{
	return fail_busy(ordering, ordering->session->driver_ms, "the GPU's driver");
}

int ordering_take_at_driver(const struct ordering *ordering, struct turn *turn)
{
	return turn_take(turn, ordering->session->driver_ms) ? GPUSHARE_OK
							     : ordering_fail_at_driver(ordering);
}

int ordering_take_page_turn(const struct ordering *ordering)
{
	return order_take_turn(ordering->page, ordering->session->driver_ms)
		   ? GPUSHARE_OK
		   : ordering_fail_at_driver(ordering);
}

int ordering_take_turn(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int64_t began_ms = monotonic_ms(), left_ms = session_deadline(session) - began_ms;
	bool took = turn_take(&ordering->asking, left_ms > 0 ? (unsigned int)left_ms : 0);

	session_waited(began_ms);
	return took ? GPUSHARE_OK : fail_busy(ordering, session->timeout_ms, "the registry");
}

/* A consumer leaves by a mark in the page. If another thread is just releasing (`busy`), nobody else
 * gets the slot before this process has ended. */
static void end_roles(struct ordering *ordering, uint32_t roles)
{
	struct gpushare_session *session = ordering->session;
	bool busy = !turn_try(&ordering->releasing.turn);
	uint32_t slot;

	session_lock(session);
	slot = atomic_load(&ordering->slot);
	if (atomic_fetch_and(&ordering->roles, ~roles) & roles & ORDER_CONSUMES) {
		if (busy)
			atomic_store(&ordering->page->slot[slot - 1].unsettled, 1);
		order_mark_left(ordering->page, slot - 1);
	}
	pthread_mutex_unlock(&session->lock);
	if (!busy)
		turn_give(&ordering->releasing.turn);
}

/* A late release overwrites the mark, so the registry must hear of it, and repeats it. */
void ordering_leave(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	uint32_t slot;

	end_roles(ordering, ORDER_CONSUMES);
	slot = atomic_load(&ordering->slot);
	if (!slot || order_slot_is_settled(&ordering->page->slot[slot - 1]))
		return;
	session_lock(session);
	ordering->connection = 0;
	pthread_mutex_unlock(&session->lock);
	session_order_again(session);
}

/* Under the session's lock. True: the ordering has no buffer left. */
static bool drop(struct gpushare_buffer *buffer, struct ordering *ordering)
{
	atomic_store(&buffer->ordering, NULL);
	if (--ordering->users)
		return false;
	LL_DELETE(ordering->session->orderings, ordering);
	return true;
}

static void put(struct ordering *ordering)
{
	bool last;

	session_lock(ordering->session);
	last = !--ordering->refs;
	pthread_mutex_unlock(&ordering->session->lock);
	if (last && !stream_keep(ordering))
		ordering_free(ordering);
}

/* The registry learns of the end by the detach or withdrawal that follows. Another process may
 * publish afterwards, so graphs must find the role ended before. */
void ordering_end(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load(&buffer->ordering);
	bool last;

	if (!ordering)
		return;
	session_lock(buffer->session);
	last = drop(buffer, ordering);
	pthread_mutex_unlock(&buffer->session->lock);
	if (!last)
		return;
	end_roles(ordering, ORDER_CONSUMES | ORDER_PUBLISHES);
	put(ordering);
}

void ordering_forget(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load(&buffer->ordering);

	if (ordering && drop(buffer, ordering) &&
	    (ordering->process != fork_check_number() || !stream_keep(ordering)))
		ordering_free(ordering);
}

/* Under the session's lock: take the turn of an ordering that the registry of this connection was
 * not told about. NULL: there is none, other threads ask for them, or no registry answers now. */
static struct ordering *find_untold(const struct gpushare_session *session)
{
	struct ordering *ordering;

	if (!session->seen.connected || session->silent_until_ms > monotonic_ms())
		return NULL;
	LL_FOREACH (session->orderings, ordering) {
		if (!ordering->lost && ordering->connection != session->seen.connections &&
		    turn_try(&ordering->asking))
			break;
	}
	return ordering;
}

/* Tell the registry about the ordering again, and give its turn back. After a refusal, don't repeat
 * it on this connection. If the registry doesn't know the buffer, no process publishes it any more.
 * False: no registry answered, so stop. */
static bool tell_again(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int status = ordering_ask_in_turn(ordering, 0);
	bool unheard = status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT;

	session_lock(session);
	/* Without users, the registry doesn't know the buffer because this session has ended it. */
	if (status == GPUSHARE_E_OWNER_GONE && ordering->users)
		order_mark_gone(ordering->page);
	if (status && !unheard)
		ordering->connection = session->seen.connections;
	pthread_mutex_unlock(&session->lock);
	turn_give(&ordering->asking);
	put(ordering);
	return !unheard;
}

/* Take an ordering to tell the registry about. `mine`: this thread has set `ordering_busy`; else
 * NULL if another thread has. The critical section that finds no ordering clears `ordering_busy`,
 * so another thread finds later ones. */
static struct ordering *take_untold(struct gpushare_session *session, bool mine)
{
	struct ordering *ordering = NULL;

	session_lock(session);
	if (mine || !session->ordering_busy) {
		ordering = find_untold(session);
		session->ordering_busy = ordering;
	}
	if (ordering)
		ordering->refs++; /* ordering_end() must not free it */
	pthread_mutex_unlock(&session->lock);
	return ordering;
}

static void leave_untold(struct gpushare_session *session)
{
	session_lock(session);
	session->ordering_busy = false;
	pthread_mutex_unlock(&session->lock);
}

void session_order_again(struct gpushare_session *session)
{
	struct ordering *ordering = take_untold(session, false);
	char why[API_SENTENCE_MAX];

	if (!ordering)
		return;
	snprintf(why, sizeof(why), "%s", gpushare_explain());
	while (ordering && tell_again(ordering))
		ordering = take_untold(session, true);
	if (ordering)
		leave_untold(session);
	api_fail(GPUSHARE_OK, "%s", why);
}
