/* SPDX-License-Identifier: MIT */
/* Ends roles, frees orderings with their last buffer, and tells a restarted registry about
 * orderings. */
#include "api_order.h"
#include "base/monotonic.h"
#include "base/shim_lock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

static int fail_busy(const struct ordering *ordering, unsigned int waited_ms, const char *where)
{
	return api_fail(GPUSHARE_E_TIMED_OUT,
			"another thread has used the page of '%s' for %u ms; does %s hang?",
			ordering->name, waited_ms, where);
}

int ordering_fail_at_driver(const struct ordering *ordering)
{
	return fail_busy(ordering, ordering->session->driver_ms, "the GPU's driver");
}

int ordering_take_at_driver(const struct ordering *ordering, pthread_mutex_t *lock)
{
	return lock_take_within(lock, ordering->session->driver_ms)
		   ? GPUSHARE_OK
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

	if (!session_take(session, &ordering->telling))
		return false;
	session_lock(session);
	ordering->asking = true;
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
	pthread_mutex_unlock(&ordering->telling);
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

/* Under the session's lock. Set the slot's `final` to 1 + the last release that was enqueued in a
 * stream; after that release another consumer may have the slot. ORDER_UNSETTLED: the last one is
 * unknown, because another thread may be enqueueing one (`busy`), or a graph releases.
 * stream_release() sets `captured` before it checks the slot, so no capture is missed. */
static void leave_slot(struct ordering *ordering, bool busy)
{
	uint32_t slot = atomic_load(&ordering->slot);
	uint64_t last = atomic_load(&ordering->releasing.last);

	stream_leave_slot(ordering, 0);
	if (slot)
		atomic_store(&ordering->page->slot[slot - 1].final,
			     busy || atomic_load(&ordering->captured) ? ORDER_UNSETTLED : last + 1);
}

/* End roles in this process; `leaving` has them until the registry is told. */
static void end_roles(struct ordering *ordering, uint32_t roles)
{
	struct gpushare_session *session = ordering->session;
	bool busy = pthread_mutex_trylock(&ordering->release);

	session_lock(session);
	roles &= atomic_fetch_and(&ordering->roles, ~roles);
	ordering->leaving |= roles;
	if (roles & ORDER_CONSUMES)
		leave_slot(ordering, busy);
	pthread_mutex_unlock(&session->lock);
	if (!busy)
		pthread_mutex_unlock(&ordering->release);
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
		return status; /* a later request tells the registry */
	status = ordering_tell_leave(ordering);
	ordering_give_turn(ordering);
	/* session_ask() calls this too, but it skips an ordering whose turn is taken. */
	session_order_again(ordering->session);
	return status;
}

struct ordering *ordering_drop(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_exchange(&buffer->ordering, NULL);

	if (!ordering || --ordering->users)
		return NULL;
	DL_DELETE(ordering->session->orderings, ordering);
	return ordering;
}

/* Whether the registry must be told before the buffer ends. If a detach or withdrawal follows at
 * once, that ends a publisher's role. But if streams take their numbers late, they must find the
 * role ended before that, as another process may publish afterwards. */
static bool is_to_be_told(const struct ordering *ordering, bool memory_stays)
{
	uint32_t roles = atomic_load(&ordering->roles);

	return ordering->leaving || (roles & ORDER_CONSUMES) ||
	       ((roles & ORDER_PUBLISHES) && (memory_stays || atomic_load(&ordering->page->late)));
}

/* Tell the registry, but first wait for another thread that tells it about this ordering. If that
 * thread waits too long for the registry, don't wait for it. */
static void tell_end(struct ordering *ordering)
{
	bool waited = take_turn(ordering);
	request tell;

	end_roles(ordering, ORDER_CONSUMES | ORDER_PUBLISHES);
	describe_leave(ordering, &tell);
	ordering->leaving = 0; /* no later request repeats it */
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
	struct ordering *ordering;

	session_lock(buffer->session);
	ordering = ordering_drop(buffer);
	pthread_mutex_unlock(&buffer->session->lock);
	ordering_finish(ordering, false);
}

void ordering_finish(struct ordering *ordering, bool memory_stays)
{
	struct gpushare_session *session;
	bool held;

	if (!ordering)
		return;
	session = ordering->session;
	if (is_to_be_told(ordering, memory_stays))
		tell_end(ordering);
	session_lock(session);
	held = ordering->held; /* then tell_again() frees it */
	ordering->ended = true;
	pthread_mutex_unlock(&session->lock);
	if (!held)
		free_kept(ordering);
}

void ordering_forget(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = ordering_drop(buffer);

	if (ordering)
		ordering_free(ordering);
}

/* Under the session's lock. Whether this thread should tell the registry, because no other thread
 * does. Either the registry of this connection doesn't know the ordering, or it doesn't know an
 * ended role and currently answers. */
static bool is_unsynced(const struct gpushare_session *session, const struct ordering *ordering)
{
	if (ordering->asking)
		return false;
	return ordering->connection != session->seen.connections ||
	       (ordering->leaving && session->seen.connected &&
		session->silent_until_ms <= monotonic_ms());
}

/* Under the session's lock. */
static struct ordering *find_unsynced(const struct gpushare_session *session)
{
	struct ordering *ordering;

	LL_FOREACH (session->orderings, ordering) {
		if (!ordering->lost && is_unsynced(session, ordering))
			break;
	}
	return ordering;
}

/* Tell the registry about the ordering again. After a refusal, don't repeat it on this connection.
 * If the registry doesn't know the buffer, no process publishes it any more. False: no registry
 * answered, or the buffer is still to be shared with a new one; so stop. */
static bool tell_again(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int status = ordering_ask(ordering, 0);
	bool unheard = ordering_is_unheard(status), gone;

	session_lock(session);
	/* If `ended`, the registry doesn't know the buffer because this session has ended it. */
	if (status == GPUSHARE_E_OWNER_GONE && !ordering->ended)
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

/* Take an ordering to tell the registry about. `mine`: this thread has set `ordering_busy`; else
 * NULL if another thread has. The critical section that finds no ordering clears `ordering_busy`,
 * so another thread finds later ones. */
static struct ordering *take_unsynced(struct gpushare_session *session, bool mine)
{
	struct ordering *ordering = NULL;

	session_lock(session);
	if (mine || !session->ordering_busy) {
		ordering = find_unsynced(session);
		session->ordering_busy = ordering;
	}
	if (ordering)
		ordering->held = true; /* ordering_end() must not free it */
	pthread_mutex_unlock(&session->lock);
	return ordering;
}

static void leave_unsynced(struct gpushare_session *session)
{
	session_lock(session);
	session->ordering_busy = false;
	pthread_mutex_unlock(&session->lock);
}

void session_order_again(struct gpushare_session *session)
{
	struct ordering *ordering = take_unsynced(session, false);
	char why[API_SENTENCE_MAX];

	if (!ordering)
		return;
	snprintf(why, sizeof(why), "%s", gpushare_explain());
	while (ordering && tell_again(ordering))
		ordering = take_unsynced(session, true);
	if (ordering)
		leave_unsynced(session);
	api_fail(GPUSHARE_OK, "%s", why);
}
