/* SPDX-License-Identifier: MIT */
/* Order pages: fetched, shared by a session's buffers, given back; what the registry is told. */
#include "api_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cleanup.h"

/* Which process this is, in memory that a child finds empty: a system call for each call would cost
 * as much as the rest of it. */
static _Atomic(_Atomic int *) process_mark;

static bool process_claim(void)
{
	_Atomic int *mark = atomic_load(&process_mark), *none = NULL;

	if (!mark) {
		mark = mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mark == MAP_FAILED)
			return false;
		if (madvise((void *)mark, sizeof(*mark), MADV_WIPEONFORK) ||
		    !atomic_compare_exchange_strong(&process_mark, &none, mark)) {
			munmap((void *)mark, sizeof(*mark));
			if (!none)
				return false;
			mark = none;
		}
	}
	atomic_store(mark, getpid());
	return true;
}

static bool is_mine(const struct ordering *ordering)
{
	const _Atomic int *mark = atomic_load_explicit(&process_mark, memory_order_acquire);

	return ordering->pid == atomic_load_explicit(mark, memory_order_relaxed);
}

struct ordering *ordering_seen(const struct gpushare_buffer *buffer)
{
	struct ordering *ordering = atomic_load_explicit(&buffer->ordering, memory_order_acquire);

	return ordering && is_mine(ordering) ? ordering : NULL;
}

int ordering_fail_gone(const struct ordering *ordering, uint64_t at_least)
{
	return api_fail(GPUSHARE_E_OWNER_GONE,
			"who published '%s' has gone: %" PRIu64 " was the last, and %" PRIu64
			" will not come",
			ordering->name, order_published(ordering->page), at_least);
}

static int ask_order(struct gpushare_session *session, const gpushare_Order *order,
		     gpushare_OrderReply *out_answer)
{
	request ask = {.which_verb = gpushare_Request_order_tag};

	ask.verb.order = *order;
	return session_ask(session, &ask, gpushare_Reply_order_tag, out_answer,
			   sizeof(*out_answer));
}

/* The descriptor of a page that is new here. A registry that came since has another ticket. */
static int fetch(struct gpushare_session *session, const gpushare_Order *ask,
		 gpushare_OrderReply *out_answer, unsigned int *out_connection, int *out_fd)
{
	int tries = 0, status;

	do {
		*out_connection = session_connections(session);
		status = ask_order(session, ask, out_answer);
		if (!status)
			status = session_withdraw(session, out_answer->ticket, out_fd);
	} while (status && ++tries < CLIENT_TRIES && session_has_moved(session, *out_connection));
	return status;
}

static int fail_page(const struct gpushare_buffer *buffer, int status)
{
	return api_fail(status,
			status == GPUSHARE_E_NO_MEMORY
			    ? "no memory to order '%s'"
			    : "what the registry gave as the order page of '%s' is none",
			buffer->info.name);
}

static int make(const struct gpushare_buffer *buffer, int fd, struct ordering **out_ordering)
{
	struct ordering *ordering = process_claim() ? calloc(1, sizeof(*ordering)) : NULL;
	int status = GPUSHARE_E_NO_MEMORY;

	if (ordering)
		status = order_page_map(fd, buffer->info.generation, &ordering->page);
	if (status) {
		free(ordering);
		return fail_page(buffer, status);
	}
	ordering->session = buffer->session;
	ordering->pid = getpid();
	memcpy(ordering->name, buffer->info.name, sizeof(ordering->name));
	ordering->generation = buffer->info.generation;
	ordering->fd = fd;
	*out_ordering = ordering;
	return GPUSHARE_OK;
}

void ordering_free(struct ordering *ordering)
{
	order_page_unmap(ordering->page);
	close(ordering->fd);
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

/* Under the session's lock: what the registry has answered. */
static void note_roles(struct ordering *ordering, uint32_t roles, const gpushare_OrderReply *answer,
		       unsigned int connection)
{
	if (answer->slot)
		atomic_store(&ordering->slot, answer->slot);
	atomic_fetch_or(&ordering->roles, roles);
	ordering->connection = connection;
}

/* Under the session's lock: the buffer is one of those that have it. */
static void use(struct gpushare_buffer *buffer, struct ordering *ordering)
{
	if (atomic_load(&buffer->ordering))
		return;
	ordering->users++;
	atomic_store_explicit(&buffer->ordering, ordering, memory_order_release);
}

/* Another thread may have come first: its one stays. */
static int open_new(struct gpushare_buffer *buffer, const gpushare_Order *ask,
		    struct ordering **out_ordering)
{
	struct gpushare_session *session = buffer->session;
	struct ordering *made = NULL, *seen;
	gpushare_OrderReply answer;
	unsigned int connection;
	int fd = -1;
	int status = fetch(session, ask, &answer, &connection, &fd);

	if (status)
		return status;
	status = make(buffer, fd, &made);
	if (status) {
		close(fd);
		return status;
	}
	pthread_mutex_lock(&session->lock);
	seen = find(session, made->generation);
	if (!seen) {
		made->next = session->orderings;
		session->orderings = made;
	}
	*out_ordering = seen ? seen : made;
	note_roles(*out_ordering, ask->roles, &answer, connection);
	use(buffer, *out_ordering);
	pthread_mutex_unlock(&session->lock);
	if (seen)
		ordering_free(made);
	return GPUSHARE_OK;
}

/* What is mapped here is not the registry's: nobody who comes will see what is said there. */
static int fail_lost(struct ordering *ordering)
{
	order_mark_gone(ordering->page);
	return api_fail(GPUSHARE_E_OWNER_GONE,
			"the registry was restarted and has lost the order of '%s'; detach it, and "
			"attach it again",
			ordering->name);
}

/* The registry has lost the page: give it this one. */
static int give_back(struct ordering *ordering, gpushare_Order *ask,
		     gpushare_OrderReply *out_answer)
{
	int status = session_deposit(ordering->session, ordering->fd, ask->ticket);

	return status ? status : ask_order(ordering->session, ask, out_answer);
}

/* Of a page that is here: those roles, besides. */
static int ask_more(struct ordering *ordering, uint32_t roles)
{
	struct gpushare_session *session = ordering->session;
	gpushare_Order ask = {
	    .generation = ordering->generation,
	    .roles = atomic_load(&ordering->roles) | roles,
	    .again = ordering->page->id,
	    .slot = atomic_load(&ordering->slot),
	};
	gpushare_OrderReply answer;
	unsigned int connection = session_connections(session);
	int status;

	memcpy(ask.name, ordering->name, sizeof(ask.name));
	status = ask_order(session, &ask, &answer);
	if (!status && !answer.id)
		status = give_back(ordering, &ask, &answer);
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
		return roles & ~atomic_load(&ordering->roles) ? ask_more(ordering, roles)
							      : GPUSHARE_OK;
	}
	ask.generation = buffer->info.generation;
	memcpy(ask.name, buffer->info.name, sizeof(ask.name));
	return open_new(buffer, &ask, out_ordering);
}

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
	if (roles & ORDER_CONSUMES)
		atomic_store(&ordering->slot, 0);
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
	if (is_unsettled(ordering, roles)) {
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
	int status = ask_more(ordering, 0);
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
