/* SPDX-License-Identifier: MIT */
/* Roles that end, pages that go with their buffers, and what another registry is told of them. */
#include "api_order.h"
#include "base/fork_check.h"
#include "base/monotonic.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
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

static bool take_turn(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int64_t began_ms = monotonic_ms(), left_ms = session_deadline(session) - began_ms;
	bool took = turn_take(&ordering->telling, left_ms > 0 ? (unsigned int)left_ms : 0);

	session_waited(began_ms);
	if (!took)
		return false;
	session_lock(session);
	ordering->asking = true;
	ordering->teller = pthread_self();
	pthread_mutex_unlock(&session->lock);
	return true;
}

int ordering_take_turn(struct ordering *ordering)
{
	return take_turn(ordering)
		   ? GPUSHARE_OK
		   : fail_busy(ordering, ordering->session->timeout_ms, "the registry");
}

void ordering_give_turn(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;

	session_lock(session);
	ordering->asking = false;
	pthread_mutex_unlock(&session->lock);
	turn_give(&ordering->telling);
}

/* A question of this thread's may end in what was to wait for it. */
static bool has_turn(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	bool has;

	session_lock(session);
	has = ordering->asking && pthread_equal(ordering->teller, pthread_self());
	pthread_mutex_unlock(&session->lock);
	return has;
}

static void describe_leave(const struct ordering *ordering, request *out_tell)
{
	gpushare_Order *order = &out_tell->verb.order;

	*out_tell = (request){.which_verb = gpushare_Request_order_tag};
	memcpy(order->name, ordering->name, sizeof(order->name));
	order->generation = ordering->generation;
	order->roles = ordering->leaving;
	order->leave = true;
}

bool ordering_is_unheard(int status)
{
	return status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT;
}

/* Under the lock. Says in the page when the slot can be used again: behind the last release that streams were
 * given. Not known if another thread is about to give one (`busy`), or if a graph releases: that is captured
 * before the slot is seen to be left. */
static void leave_slot(struct ordering *ordering, bool busy)
{
	uint32_t slot = atomic_load(&ordering->slot);
	uint64_t last = atomic_load(&ordering->releasing.last);

	stream_leave_slot(ordering, 0);
	if (slot)
		atomic_store(&ordering->page->slot[slot - 1].final,
			     busy || atomic_load(&ordering->captured) ? ORDER_UNSETTLED : last + 1);
}

/* They end here, and the registry is yet to hear of it. */
static void end_roles(struct ordering *ordering, uint32_t roles)
{
	struct gpushare_session *session = ordering->session;
	bool busy = !turn_take(&ordering->releasing.turn, 0);

	session_lock(session);
	roles &= atomic_fetch_and(&ordering->roles, ~roles);
	ordering->leaving |= roles;
	if (roles & ORDER_CONSUMES)
		leave_slot(ordering, busy);
	pthread_mutex_unlock(&session->lock);
	if (!busy)
		turn_give(&ordering->releasing.turn);
}

int ordering_tell_leave(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	uint32_t leaving;
	request tell;
	int status;

	session_lock(session);
	leaving = ordering->leaving;
	describe_leave(ordering, &tell);
	pthread_mutex_unlock(&session->lock);
	if (!leaving)
		return GPUSHARE_OK;
	status = session_ask(session, &tell, 0, NULL, 0);
	if (ordering_is_unheard(status))
		return status;
	session_lock(session);
	ordering->leaving &= ~leaving;
	pthread_mutex_unlock(&session->lock);
	return status;
}

int ordering_leave(struct ordering *ordering, uint32_t roles)
{
	int status = ordering_take_turn(ordering);

	end_roles(ordering, roles);
	if (status)
		return status; /* it is told when the registry is asked next */
	status = ordering_tell_leave(ordering);
	ordering_give_turn(ordering);
	session_order_again(ordering->session); /* which leaves out who has the turn */
	return status;
}

/* Under the session's lock. */
static void unlist(struct ordering *ordering)
{
	LL_DELETE(ordering->session->orderings, ordering);
}

/* Under the session's lock. True: that was the last of its buffers. */
static bool drop(struct gpushare_buffer *buffer, struct ordering *ordering)
{
	atomic_store(&buffer->ordering, NULL);
	if (--ordering->users)
		return false;
	unlist(ordering);
	return true;
}

/* A publisher's end follows from the detach or the withdrawal that comes next. But if streams take their numbers
 * late, they have to find the role ended before that: another process may publish then. */
static bool is_to_be_told(const struct ordering *ordering)
{
	uint32_t roles = atomic_load(&ordering->roles);

	return ordering->leaving || (roles & ORDER_CONSUMES) ||
	       ((roles & ORDER_PUBLISHES) && atomic_load(&ordering->page->late));
}

/* Behind what another thread tells of them; whom the registry keeps waiting for long is not waited for. */
static void tell_end(struct ordering *ordering)
{
	bool waited = !has_turn(ordering) && take_turn(ordering);
	request tell;

	end_roles(ordering, ORDER_CONSUMES | ORDER_PUBLISHES);
	describe_leave(ordering, &tell);
	ordering->leaving = 0; /* nobody tells it once more */
	session_tell(ordering->session, &tell);
	if (waited)
		ordering_give_turn(ordering);
}

static void free_kept(struct ordering *ordering)
{
	if (!stream_keep(ordering))
		ordering_free(ordering);
}

void ordering_end(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load(&buffer->ordering);
	struct gpushare_session *session = buffer->session;
	bool last, held;

	if (!ordering)
		return;
	session_lock(session);
	last = drop(buffer, ordering);
	pthread_mutex_unlock(&session->lock);
	if (!last)
		return;
	if (is_to_be_told(ordering))
		tell_end(ordering);
	session_lock(session);
	held = ordering->held; /* then it is freed there */
	ordering->ended = true;
	pthread_mutex_unlock(&session->lock);
	if (!held)
		free_kept(ordering);
}

void ordering_forget(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load(&buffer->ordering);

	if (!ordering || !drop(buffer, ordering))
		return;
	if (ordering->process != fork_check_number())
		ordering_free(ordering);
	else
		free_kept(ordering);
}

/* Under the session's lock: the registry of this connection was not told of it, or did not hear that
 * a role ended, and would hear it now; and nobody is about to tell it. */
static bool is_untold(const struct gpushare_session *session, const struct ordering *ordering)
{
	if (ordering->asking)
		return false;
	return ordering->connection != session->seen.connections ||
	       (ordering->leaving && session->seen.connected &&
		session->silent_until_ms <= monotonic_ms());
}

/* Under the session's lock. */
static struct ordering *find_untold(const struct gpushare_session *session)
{
	struct ordering *ordering;

	LL_FOREACH (session->orderings, ordering) {
		if (!ordering->lost && is_untold(session, ordering))
			break;
	}
	return ordering;
}

/* What the registry refuses to hear, it won't hear the next time either; of what it does not know
 * nobody publishes any more. False: no more of this now. */
static bool tell_again(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int status = ordering_ask(ordering, 0);
	bool unheard = ordering_is_unheard(status), gone;

	session_lock(session);
	if (status == GPUSHARE_E_OWNER_GONE && !ordering->ended) /* else it is not known for ours */
		order_mark_gone(ordering->page);
	if (status && !unheard)
		ordering->connection = session->seen.connections;
	ordering->held = false;
	gone = ordering->ended;
	pthread_mutex_unlock(&session->lock);
	if (gone)
		free_kept(ordering);
	return !unheard;
}

/* To be told of, by this thread, which is at it already or for the first time. Whoever finds no more of them is
 * at it no more from that look on: what comes behind it is another thread's to see. */
static struct ordering *take_untold(struct gpushare_session *session, bool mine)
{
	struct ordering *ordering = NULL;

	session_lock(session);
	if (mine || !session->ordering_busy) {
		ordering = find_untold(session);
		session->ordering_busy = ordering;
	}
	if (ordering)
		ordering->held = true; /* it stays meanwhile */
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
