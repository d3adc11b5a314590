/* SPDX-License-Identifier: MIT */
/* Fetches stream-sync pages, shares them among a session's buffers, asks the registry for roles,
 * ends them, and tells a restarted registry about them. */
#include "api_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/fork_check.h"
#include "base/monotonic.h"
#include "base/shim_lock.h"

struct ordering *ordering_seen(const struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load_explicit(&buffer->ordering, memory_order_acquire);

	return ordering && buffer->session->process == fork_check_number() ? ordering : NULL;
}

int ordering_fail_gone(const struct ordering *ordering, uint64_t at_least)
{
	return api_fail(GPUSHARE_E_OWNER_GONE,
			"the publisher of '%s' has gone: publication %" PRIu64
			" was the last, and %" PRIu64 " will not come",
			ordering->name, order_published(ordering->page), at_least);
}

int ordering_fail_publish(const struct ordering *ordering, int status)
{
	if (status == GPUSHARE_E_OWNER_GONE)
		return api_fail(status, "'%s' has ended: there will be no more publications",
				ordering->name);
	return api_fail(status,
			"an earlier publication of '%s' by a stream will not come: its CUDA "
			"context has failed",
			ordering->name);
}

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

/* One thread at a time tells the registry about the ordering, so that changes arrive in their
 * order. E_TIMED_OUT: another thread still has the lock `telling`. */
static int take_turn(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int64_t began_ms = monotonic_ms(), left_ms = session_deadline(session) - began_ms;
	bool took = lock_take_within(&ordering->telling, left_ms > 0 ? (unsigned int)left_ms : 0);

	session_waited(began_ms);
	return took ? GPUSHARE_OK : fail_busy(ordering, session->timeout_ms, "the registry");
}

/* While this thread had the turn, its requests called session_order_again(), but that skipped this
 * ordering. */
static void give_turn(struct ordering *ordering)
{
	pthread_mutex_unlock(&ordering->telling);
	session_order_again(ordering->session);
}

/* If the registry doesn't know a buffer of this session, the buffer has ended. Then return
 * E_OWNER_GONE instead of E_NOT_FOUND, with the registry's error sentence. But after a restart
 * (`early`), another thread may still be about to share the buffer with the new registry:
 * E_TIMED_OUT. */
static int ask_order(struct gpushare_session *session, const gpushare_Order *order,
		     gpushare_OrderReply *out_answer, int fd, int *out_fd)
{
	request ask = {.which_verb = gpushare_Request_order_tag};
	struct session_answer got;
	int status;

	ask.verb.order = *order;
	status = session_ask_passing(session, &ask, BODY(order, out_answer), fd, &got);
	if (out_fd)
		*out_fd = got.fd;
	else
		fds_close(&got.fd, got.fd >= 0);
	if (status != GPUSHARE_E_NOT_FOUND)
		return status;
	if (!got.early)
		return GPUSHARE_E_OWNER_GONE;
	return api_fail(GPUSHARE_E_TIMED_OUT,
			"the registry was restarted, and this process has not shared '%s' with it "
			"again yet; try again",
			order->name);
}

static int make(const struct gpushare_buffer *buffer, int fd, struct ordering **out_ordering)
{
	struct ordering *ordering = calloc(1, sizeof(*ordering));
	int status = GPUSHARE_E_NO_MEMORY;

	if (ordering)
		status = order_page_map(fd, buffer->info.generation, &ordering->page);
	if (status) {
		free(ordering);
		return api_fail(status,
				status == GPUSHARE_E_NO_MEMORY
				    ? "no memory to sync '%s'"
				    : "the registry sent no valid stream-sync page for '%s'",
				buffer->info.name);
	}
	pthread_mutex_init(&ordering->telling, NULL);
	pthread_mutex_init(&ordering->opening, NULL);
	pthread_mutex_init(&ordering->release, NULL);
	ordering->session = buffer->session;
	memcpy(ordering->name, buffer->info.name, sizeof(ordering->name));
	ordering->generation = buffer->info.generation;
	ordering->held_fd = held_keep(fd);
	*out_ordering = ordering;
	return GPUSHARE_OK;
}

void ordering_free(struct ordering *ordering)
{
	order_page_unmap(ordering->page);
	held_drop(ordering->held_fd);
	free(ordering);
}

/* Under the session's lock. */
static struct ordering *find(const struct gpushare_session *session, uint64_t generation)
{
	struct ordering *ordering = session->orderings;

	while (ordering && (ordering->generation != generation || ordering->lost))
		ordering = ordering->next;
	return ordering;
}

/* Under the session's lock: record the registry's answer. Roles that another thread ended meanwhile
 * (`leaving`) stay ended, and the registry is told about them later. */
static void note_roles(struct ordering *ordering, uint32_t roles, const gpushare_OrderReply *answer,
		       unsigned int connection)
{
	uint32_t slot = ordering->leaving & ORDER_CONSUMES ? 0 : answer->slot;

	if (slot && atomic_load(&ordering->slot) != slot)
		stream_leave_slot(ordering, slot);
	atomic_fetch_or(&ordering->roles, roles & ~ordering->leaving);
	ordering->connection = connection;
}

/* Under the session's lock: the buffer becomes a user of the ordering. */
static void use(struct gpushare_buffer *buffer, struct ordering *ordering)
{
	if (atomic_load(&buffer->ordering))
		return;
	ordering->users++;
	atomic_store_explicit(&buffer->ordering, ordering, memory_order_release);
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

/* Tell the registry about the ended roles that it doesn't know (`leaving`). The caller has the
 * turn. */
static int tell_leave(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	uint32_t leaving;
	request tell;
	int status;

	pthread_mutex_lock(&session->lock);
	leaving = ordering->leaving;
	describe_leave(ordering, &tell);
	pthread_mutex_unlock(&session->lock);
	if (!leaving)
		return GPUSHARE_OK;
	status = session_ask(session, &tell, NO_BODY);
	if (status_is_unheard(status))
		return status;
	pthread_mutex_lock(&session->lock);
	ordering->leaving &= ~leaving;
	pthread_mutex_unlock(&session->lock);
	return status;
}

/* The registry has another page for the buffer, so new participants don't see this one. */
static int fail_lost(struct ordering *ordering)
{
	order_mark_gone(ordering->page);
	return api_fail(GPUSHARE_E_OWNER_GONE,
			"the registry was restarted and has lost the stream-sync page of '%s'; "
			"detach the buffer, and attach it again",
			ordering->name);
}

static int ask_in_turn(struct ordering *ordering, uint32_t roles)
{
	struct gpushare_session *session = ordering->session;
	gpushare_Order ask = {.generation = ordering->generation, .again = ordering->page->id};
	gpushare_OrderReply answer;
	unsigned int connection;
	int status = tell_leave(ordering);

	if (status_is_unheard(status))
		return status;
	connection = session_connections(session);
	ask.roles = atomic_load(&ordering->roles) | roles;
	ask.slot = atomic_load(&ordering->slot);
	memcpy(ask.name, ordering->name, sizeof(ask.name));
	status = ask_order(session, &ask, &answer, -1, NULL);
	if (!status && !answer.id) { /* the registry has lost the page: send it */
		_cleanup_close_ int fd = held_open(ordering->held_fd);

		status = ask_order(session, &ask, &answer, fd, NULL);
	}
	if (status)
		return status;
	pthread_mutex_lock(&session->lock);
	if (answer.id == ordering->page->id)
		note_roles(ordering, ask.roles, &answer, connection);
	else
		ordering->lost = true;
	pthread_mutex_unlock(&session->lock);
	return ordering->lost ? fail_lost(ordering) : GPUSHARE_OK;
}

/* Add roles to an open ordering. Always asks the registry, also for the roles that the ordering
 * already has. */
static int ask_again(struct ordering *ordering, uint32_t roles)
{
	int status = take_turn(ordering);

	if (status)
		return status;
	status = ask_in_turn(ordering, roles);
	give_turn(ordering);
	return status;
}

/* Open the buffer's ordering. If another thread has opened one meanwhile, use that one. */
static int open_new(struct gpushare_buffer *buffer, const gpushare_Order *ask,
		    struct ordering **out_ordering)
{
	struct gpushare_session *session = buffer->session;
	struct ordering *made = NULL, *seen;
	gpushare_OrderReply answer;
	unsigned int connection = session_connections(session);
	_cleanup_close_ int fd = -1;
	int status = ask_order(session, ask, &answer, -1, &fd);

	if (!status)
		status = make(buffer, fd, &made);
	if (status)
		return status;
	pthread_mutex_lock(&session->lock);
	seen = find(session, made->generation);
	if (!seen) {
		DL_PREPEND(session->orderings, made);
		note_roles(made, ask->roles, &answer, connection);
	}
	*out_ordering = seen ? seen : made;
	use(buffer, *out_ordering);
	pthread_mutex_unlock(&session->lock);
	if (!seen)
		return GPUSHARE_OK;
	ordering_free(made);
	/* The other thread may have ended the roles that this answer granted. */
	return ask->roles & ~atomic_load(&seen->roles) ? ask_again(seen, ask->roles) : GPUSHARE_OK;
}

int ordering_of(struct gpushare_buffer *buffer, uint32_t roles, struct ordering **out_ordering)
{
	struct ordering *ordering = buffer ? ordering_seen(buffer) : NULL;
	gpushare_Order ask = {.roles = roles};
	int status;

	if (ordering && !(roles & ~atomic_load_explicit(&ordering->roles, memory_order_acquire))) {
		*out_ordering = ordering;
		return GPUSHARE_OK;
	}
	status = session_check_buffer(buffer);
	if (status)
		return status;
	if (!ordering) {
		pthread_mutex_lock(&buffer->session->lock);
		ordering = find(buffer->session, buffer->info.generation);
		if (ordering)
			use(buffer, ordering);
		pthread_mutex_unlock(&buffer->session->lock);
	}
	if (ordering) {
		*out_ordering = ordering;
		return roles & ~atomic_load(&ordering->roles) ? ask_again(ordering, roles)
							      : GPUSHARE_OK;
	}
	ask.generation = buffer->info.generation;
	memcpy(ask.name, buffer->info.name, sizeof(ask.name));
	return open_new(buffer, &ask, out_ordering);
}

/* Under the session's lock. Set the slot's `final` to 1 + the last release that was enqueued in a
 * stream; after that release another consumer may have the slot. ORDER_UNSETTLED: the last release
 * is unknown, because another thread may be enqueueing one (`busy`), or because a graph releases.
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

/* End roles in this process, and add them to `leaving` until the registry is told. */
static void end_roles(struct ordering *ordering, uint32_t roles)
{
	struct gpushare_session *session = ordering->session;
	bool busy = pthread_mutex_trylock(&ordering->release);

	pthread_mutex_lock(&session->lock);
	roles &= atomic_fetch_and(&ordering->roles, ~roles);
	ordering->leaving |= roles;
	if (roles & ORDER_CONSUMES)
		leave_slot(ordering, busy);
	pthread_mutex_unlock(&session->lock);
	if (!busy)
		pthread_mutex_unlock(&ordering->release);
}

int ordering_leave(struct ordering *ordering, uint32_t roles)
{
	int status = take_turn(ordering);

	end_roles(ordering, roles);
	if (status)
		return status; /* a later request tells the registry */
	status = tell_leave(ordering);
	give_turn(ordering);
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

/* Whether the registry must be told about roles before it is told about the buffer's end. A
 * publisher's role ends with a detach or withdrawal that follows at once. But if streams take their
 * numbers late, the role must end before: another process may publish after the detach, and these
 * streams must not publish any more. */
static bool is_to_be_told(const struct ordering *ordering, bool memory_stays)
{
	uint32_t roles = atomic_load(&ordering->roles);

	return ordering->leaving || (roles & ORDER_CONSUMES) ||
	       ((roles & ORDER_PUBLISHES) && (memory_stays || atomic_load(&ordering->page->late)));
}

/* Tell the registry that all roles end. If another thread is telling it about this ordering, first
 * wait for that thread, but no longer than the time limit. */
static void tell_end(struct ordering *ordering)
{
	bool waited = take_turn(ordering) == GPUSHARE_OK;
	request tell;

	end_roles(ordering, ORDER_CONSUMES | ORDER_PUBLISHES);
	describe_leave(ordering, &tell);
	ordering->leaving = 0; /* no later request repeats it */
	session_tell(ordering->session, &tell);
	if (waited)
		pthread_mutex_unlock(&ordering->telling);
}

void ordering_end(struct gpushare_buffer *buffer)
{
	struct ordering *ordering;

	pthread_mutex_lock(&buffer->session->lock);
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
	pthread_mutex_lock(&session->lock);
	held = ordering->held; /* then tell_again() frees it */
	ordering->ended = true;
	pthread_mutex_unlock(&session->lock);
	if (!held)
		stream_end(ordering);
}

void ordering_forget(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = ordering_drop(buffer);

	if (ordering)
		ordering_free(ordering);
}

/* Under the session's lock. Whether this thread should tell the registry about the ordering. It
 * should if the registry of this connection doesn't know the ordering, or if the registry answers
 * and doesn't know an ended role. False, too, if another thread is telling it. */
static bool is_unsynced(const struct gpushare_session *session, struct ordering *ordering)
{
	bool due = ordering->connection != session->seen.connections ||
		   (ordering->leaving && session->seen.connected &&
		    session->silent_until_ms <= monotonic_ms());

	if (!due || ordering->lost || pthread_mutex_trylock(&ordering->telling))
		return false;
	pthread_mutex_unlock(&ordering->telling);
	return true;
}

/* Under the session's lock: take an ordering to tell the registry about. If there is none, another
 * thread may look for one from now on. */
static struct ordering *take_unsynced(struct gpushare_session *session)
{
	struct ordering *ordering;

	LL_FOREACH (session->orderings, ordering) {
		if (is_unsynced(session, ordering))
			break;
	}
	session->ordering_busy = ordering;
	if (ordering)
		ordering->held = true; /* ordering_end() must not free it */
	return ordering;
}

/* Tell the registry about the ordering again. After a refusal, don't repeat it on this connection.
 * If the registry doesn't know the buffer, no process publishes it any more. Returns the next
 * ordering to tell about. NULL: there is none, no registry answered, or the buffer is still to be
 * shared with a new registry. */
static struct ordering *tell_again(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int status = ask_again(ordering, 0);
	bool unheard = status_is_unheard(status), gone;
	struct ordering *next = NULL;

	pthread_mutex_lock(&session->lock);
	/* If `ended`, the registry doesn't know the buffer because this session has ended it. */
	if (status == GPUSHARE_E_OWNER_GONE && !ordering->ended)
		order_mark_gone(ordering->page);
	if (status && !unheard)
		ordering->connection = session->seen.connections;
	ordering->held = false;
	gone = ordering->ended;
	session->ordering_busy = false;
	if (!unheard)
		next = take_unsynced(session);
	pthread_mutex_unlock(&session->lock);
	if (gone)
		stream_end(ordering);
	return next;
}

void session_order_again(struct gpushare_session *session)
{
	struct ordering *ordering = NULL;

	pthread_mutex_lock(&session->lock);
	if (!session->ordering_busy)
		ordering = take_unsynced(session);
	pthread_mutex_unlock(&session->lock);
	if (ordering) {
		API_KEEP_SENTENCE;

		while (ordering)
			ordering = tell_again(ordering);
	}
}
