/* SPDX-License-Identifier: MIT */
/* Fetches stream-sync pages, shares them among a session's buffers, and asks the registry for
 * roles. */
#include "api_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/fork_check.h"

static bool is_mine(const struct ordering *ordering)
{
	return ordering->process == fork_check_number();
}

struct ordering *ordering_seen(const struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load_explicit(&buffer->ordering, memory_order_acquire);

	return ordering && is_mine(ordering) ? ordering : NULL;
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

/* If the registry doesn't know a buffer of this session, the buffer has ended: E_OWNER_GONE in
 * place of E_NOT_FOUND, with the registry's error sentence. But another thread may be about to
 * share the buffer with a new registry. */
static int ask_order(struct gpushare_session *session, const gpushare_Order *order,
		     gpushare_OrderReply *out_answer, int fd, int *out_fd)
{
	request ask = {.which_verb = gpushare_Request_order_tag};
	unsigned int readings;
	bool early;
	int status;

	ask.verb.order = *order;
	status = session_ask_early(session, &ask, gpushare_Reply_order_tag, out_answer,
				   sizeof(*out_answer), &readings, fd, out_fd, &early);
	if (status != GPUSHARE_E_NOT_FOUND)
		return status;
	if (!early)
		return GPUSHARE_E_OWNER_GONE;
	return api_fail(GPUSHARE_E_TIMED_OUT,
			"the registry was restarted, and this process has not shared '%s' with it "
			"again yet; try again",
			order->name);
}

static int fail_page(const struct gpushare_buffer *buffer, int status)
{
	return api_fail(status,
			status == GPUSHARE_E_NO_MEMORY
			    ? "no memory to sync '%s'"
			    : "the registry sent no valid stream-sync page for '%s'",
			buffer->info.name);
}

static int make(const struct gpushare_buffer *buffer, int fd, struct ordering **out_ordering)
{
	struct ordering *ordering = calloc(1, sizeof(*ordering));
	int status = GPUSHARE_E_NO_MEMORY;

	if (ordering)
		status = order_page_map(fd, buffer->info.generation, &ordering->page);
	if (status) {
		free(ordering);
		return fail_page(buffer, status);
	}
	pthread_mutex_init(&ordering->telling, NULL);
	pthread_mutex_init(&ordering->opening, NULL);
	pthread_mutex_init(&ordering->release, NULL);
	ordering->session = buffer->session;
	ordering->process = fork_check_number();
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

/* If another thread has opened the ordering meanwhile, that one stays. */
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
	session_lock(session);
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
	return ask->roles & ~atomic_load(&seen->roles) ? ordering_ask(seen, ask->roles)
						       : GPUSHARE_OK;
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
	int status = ordering_tell_leave(ordering);

	if (ordering_is_unheard(status))
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
	session_lock(session);
	if (answer.id == ordering->page->id)
		note_roles(ordering, ask.roles, &answer, connection);
	else
		ordering->lost = true;
	pthread_mutex_unlock(&session->lock);
	return ordering->lost ? fail_lost(ordering) : GPUSHARE_OK;
}

int ordering_ask(struct ordering *ordering, uint32_t roles)
{
	int status = ordering_take_turn(ordering);

	if (status)
		return status;
	status = ask_in_turn(ordering, roles);
	ordering_give_turn(ordering);
	/* session_ask_passing() calls this too, but it skips an ordering whose turn is taken. */
	session_order_again(ordering->session);
	return status;
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
		session_lock(buffer->session);
		ordering = find(buffer->session, buffer->info.generation);
		if (ordering)
			use(buffer, ordering);
		pthread_mutex_unlock(&buffer->session->lock);
	}
	if (ordering) {
		*out_ordering = ordering;
		return roles & ~atomic_load(&ordering->roles) ? ordering_ask(ordering, roles)
							      : GPUSHARE_OK;
	}
	ask.generation = buffer->info.generation;
	memcpy(ask.name, buffer->info.name, sizeof(ask.name));
	return open_new(buffer, &ask, out_ordering);
}
