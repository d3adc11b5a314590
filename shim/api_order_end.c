/* SPDX-License-Identifier: MIT */
/* Roles that end, pages that go with their buffers, and what another registry is told of them. */
#include "api_order.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_unsettled(const struct ordering *ordering, uint32_t roles)
{
	return ((roles & ORDER_PUBLISHES) && stream_has_unpublished(ordering)) ||
	       ((roles & ORDER_CONSUMES) && stream_has_unreleased(ordering));
}

static void describe_leave(const struct ordering *ordering, uint32_t roles, request *out_tell)
{
	gpushare_Order *order = &out_tell->verb.order;

	*out_tell = (request){.which_verb = gpushare_Request_order_tag};
	memcpy(order->name, ordering->name, sizeof(order->name));
	order->generation = ordering->generation;
	order->roles = roles;
	order->leave = true;
	order->unsettled = is_unsettled(ordering, roles);
}

int ordering_leave(struct ordering *ordering, uint32_t roles)
{
	request tell;

	roles &= atomic_fetch_and(&ordering->roles, ~roles);
	if (!roles)
		return GPUSHARE_OK;
	describe_leave(ordering, roles, &tell);
	if (roles & ORDER_CONSUMES) {
		atomic_store(&ordering->slot, 0);
		atomic_store(&ordering->releasing.last, 0); /* the next slot begins anew */
	}
	return session_ask(ordering->session, &tell, 0, NULL, 0);
}

/* Under the session's lock. */
static void unlist(struct ordering *ordering)
{
	struct ordering **at = &ordering->session->orderings;

	while (*at != ordering)
		at = &(*at)->next;
	*at = ordering->next;
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

/* The registry learns the rest from what ends with the buffer, a detach or a withdrawal. */
void ordering_end(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load(&buffer->ordering);
	struct gpushare_session *session = buffer->session;
	uint32_t roles;
	request tell;
	bool last;

	if (!ordering)
		return;
	pthread_mutex_lock(&session->lock);
	last = drop(buffer, ordering);
	pthread_mutex_unlock(&session->lock);
	if (!last)
		return;
	roles = atomic_load(&ordering->roles);
	if ((roles & ORDER_CONSUMES) || is_unsettled(ordering, roles)) {
		describe_leave(ordering, roles, &tell);
		session_tell(session, &tell);
	}
	if (!stream_keep(ordering))
		ordering_free(ordering);
}

void ordering_forget(struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load(&buffer->ordering);

	if (!ordering || !drop(buffer, ordering))
		return;
	if (ordering->pid != getpid() || !stream_keep(ordering))
		ordering_free(ordering);
}

/* Under the session's lock: one that the registry of this connection was not told of. */
static struct ordering *find_untold(const struct gpushare_session *session)
{
	struct ordering *ordering = session->orderings;

	while (ordering && (ordering->lost || ordering->connection == session->client->connections))
		ordering = ordering->next;
	return ordering;
}

/* What the registry refuses to hear, it won't hear the next time either. False: no more of this now. */
static bool tell_again(struct ordering *ordering)
{
	struct gpushare_session *session = ordering->session;
	int status = ordering_ask(ordering, 0);
	bool unheard = status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT, gone;

	pthread_mutex_lock(&session->lock);
	if (status && !unheard)
		ordering->connection = session->client->connections;
	gone = !--ordering->users;
	if (gone)
		unlist(ordering);
	pthread_mutex_unlock(&session->lock);
	if (gone && !stream_keep(ordering))
		ordering_free(ordering);
	return !unheard;
}

void session_order_again(struct gpushare_session *session)
{
	char why[API_SENTENCE_MAX];
	struct ordering *ordering;
	bool mine;

	pthread_mutex_lock(&session->lock);
	mine = !session->ordering_busy && find_untold(session);
	session->ordering_busy |= mine;
	pthread_mutex_unlock(&session->lock);
	if (!mine)
		return;
	snprintf(why, sizeof(why), "%s", gpushare_explain());
	for (;;) {
		pthread_mutex_lock(&session->lock);
		ordering = find_untold(session);
		if (ordering)
			ordering->users++; /* it stays meanwhile */
		pthread_mutex_unlock(&session->lock);
		if (!ordering || !tell_again(ordering))
			break;
	}
	pthread_mutex_lock(&session->lock);
	session->ordering_busy = false;
	pthread_mutex_unlock(&session->lock);
	api_fail(GPUSHARE_OK, "%s", why);
}
