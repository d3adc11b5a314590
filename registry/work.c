/* SPDX-License-Identifier: MIT */
#include "work.h"

#include <nng/transport/ipc/ipc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "access.h"
#include "clock.h"
#include "handlers.h"
#include "log.h"

/* The handlers' answer becomes the body of the message that brought the request. No more room than
 * it needs: nng 1.5.2 loses a message that is sent in the moment in which its pipe closes
 * (rep0_ctx_send() after rep0_pipe_close() has stopped aio_send). */
static void put_answer(struct work *work, const reply *answer)
{
	/* A Reply that says E_NO_MEMORY and no more: it fits where the request was. */
	static const uint8_t no_memory[] = {gpushare_Reply_status_tag << 3,
					    -GPUSHARE_E_NO_MEMORY * 2 - 1};
	uint8_t *wire = work->server->registry->wire;
	size_t size;

	nng_msg_clear(work->message);
	if (!codec_encode_reply(answer, wire, gpushare_Reply_size, &size) &&
	    !nng_msg_append(work->message, wire, size))
		return;
	log_line("an answer could not be made");
	nng_msg_append(work->message, no_memory, sizeof(no_memory));
}

/* The message is nng's from here on, to free or to lose. */
static void give_message(struct work *work)
{
#ifdef __SANITIZE_ADDRESS__
	__lsan_ignore_object(work->message);
#endif
	nng_aio_set_msg(work->aio, work->message);
	work->message = NULL;
}

/* What the aio still holds is ours again. */
static void take_message(struct work *work)
{
	work->message = nng_aio_get_msg(work->aio);
	nng_aio_set_msg(work->aio, NULL);
}

static void drop_message(struct work *work)
{
	if (work->message)
		nng_msg_free(work->message);
	work->message = NULL;
}

static void drop_rest(struct work *work)
{
	free(work->list_rest);
	work->list_rest = NULL;
}

/* From now on it counts among the answers that the connection has not read. */
static void owe_answer(struct work *work, struct lease *lease)
{
	lease->unread++;
	work->user = lease->user;
	work->user->unread++;
}

static void push_ready(struct work *work, struct lease *lease, struct work **ready)
{
	if (work->state != WORK_QUEUED)
		owe_answer(work, lease);
	work->state = WORK_SENDING;
	while (*ready)
		ready = &(*ready)->next_ready;
	work->next_ready = NULL;
	*ready = work;
}

void work_serve(struct work *work, struct work **ready)
{
	struct registry *registry = work->server->registry;
	struct lease *lease = work->waiter.lease;
	int status;

	registry_unpark(registry, &work->waiter);
	user_asks(registry, lease->user, -1); /* asked again, but still one request */
	status = handle_request(registry, lease, &work->request, &registry->reply);
	if (status == HANDLE_MORE) {
		registry_park(registry, &work->waiter);
		return;
	}
	put_answer(work, &registry->reply);
	push_ready(work, lease, ready);
}

void work_time_out(struct work *work, struct work **ready)
{
	struct registry *registry = work->server->registry;

	registry_unpark(registry, &work->waiter);
	handle_timeout(registry, work->waiter.lease, &work->request, &registry->reply);
	user_answered(registry, work->waiter.lease->user, work->request.which_verb,
		      GPUSHARE_E_TIMED_OUT);
	put_answer(work, &registry->reply);
	push_ready(work, work->waiter.lease, ready);
}

static void park(struct work *work, struct lease *lease, bool more)
{
	struct registry *registry = work->server->registry;

	work->state = WORK_PARKED;
	work->waiter.lease = lease;
	work->waiter.ask = &work->request;
	work->waiter.work = work;
	work->waiter.audited = audit_wait(registry, lease, &work->request);
	work->waiter.more = more;
	work->waiter.deadline_ns =
	    more ? INT64_MAX : clock_ns() + handle_wait_ms(&work->request) * NS_PER_MS;
	registry_park(registry, &work->waiter);
	eventfd_write(work->server->wake, 1); /* a deadline more, a receiver less */
}

/* Whoever waited for the name that was just shared, and may see it; the others wait on, and the audit says
 * so once. */
static void serve_waiters(struct registry *registry, const char *name, struct work **ready)
{
	const struct entry *entry = store_find(&registry->store, name);
	struct waiter *waiter, *after;

	DL_FOREACH_SAFE(registry->waiters, waiter, after)
	{
		if (!entry || entry->info.missing || waiter->more ||
		    strcmp(handle_wait_name(waiter->ask), name) != 0)
			continue;
		if (access_sees(waiter->lease, entry))
			work_serve(waiter->work, ready);
		else if (!waiter->audited)
			waiter->audited = audit_wait(registry, waiter->lease, waiter->ask);
	}
}

/* Milliseconds until the user's next list may be made; 0: now. */
static int list_pause_ms(const struct user *user)
{
	int ahead_ms = clock_timeout_ms(user->lists_ns);

	return ahead_ms > LIMIT_LISTS_AHEAD_MS ? ahead_ms - LIMIT_LISTS_AHEAD_MS : 0;
}

/* Under the lock. The user's next list waits for as long as this one takes, in time of the CPU: the
 * time in which the process was stopped does not count. false: it is half made. */
static bool make_list(struct work *work, struct lease *lease, struct work **ready)
{
	struct registry *registry = work->server->registry;
	struct user *user = lease->user;
	int64_t now_ns = clock_ns(), began_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	int status;

	if (work->list_rest)
		user_asks(registry, user, -1); /* asked again, but still one request */
	registry->list_rest = work->list_rest;
	status = handle_request(registry, lease, &work->request, &registry->reply);
	work->list_rest = registry->list_rest;
	registry->list_rest = NULL;
	if (status != HANDLE_WAIT) {
		drop_rest(work);
		put_answer(work, &registry->reply);
		push_ready(work, lease, ready);
	}
	if (user->lists_ns < now_ns)
		user->lists_ns = now_ns;
	user->lists_ns += 2 * (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
	return status != HANDLE_WAIT;
}

static void queue_list(struct work *work)
{
	DL_APPEND2(work->user->lists, work, prev_list, next_list);
	work->user->list_count++;
}

static void answer_list(struct work *work, struct lease *lease, struct work **ready)
{
	struct user *user = lease->user;

	if ((handle_refuses_lists(user) || (!user->lists && !list_pause_ms(user))) &&
	    make_list(work, lease, ready))
		return;
	owe_answer(work, lease);
	work->state = WORK_QUEUED;
	queue_list(work);
}

/* Without the lock. Only the callback of a queue's first work serves the queue, and only one work of a
 * queue sleeps. */
static void sleep_list(struct work *first, int pause_ms)
{
	nng_aio_set_timeout(first->aio, NNG_DURATION_INFINITE);
	nng_sleep_aio(pause_ms, first->aio);
}

/* Under the lock: the answer that such a request gets; OK: it is handled. */
static int refuse(struct work *work, const struct lease *lease, int fault)
{
	struct registry *registry = work->server->registry;
	size_t size = nng_msg_len(work->message);

	if (size > registry->limits.message_bytes)
		return handle_too_long(registry, lease, size, &registry->reply);
	return fault ? handle_undecodable(fault, &registry->reply) : GPUSHARE_OK;
}

/* Whether one more of its answers may hold a context. */
static bool may_answer(const struct lease *lease)
{
	unsigned int unread = lease->user->unread;

	return unread < LIMIT_UNREAD_USER &&
	       lease->unread < (unread < LIMIT_UNREAD_USER / 2 ? LIMIT_UNREAD : LIMIT_UNREAD_LEAST);
}

/*
 * Under the lock: the request in hand becomes an answer on *ready, a parked work, or nothing (then
 * the work stays as it was). A peer that reads no answers is not shown the door: nng 1.5.2 loses an
 * aio when a pipe is closed between two parts of a message (nni_aio_begin() of a stopped aio runs
 * no callback), and its one reaper thread then waits for it for ever.
 */
static void answer_request(struct work *work, int fault, struct lease *lease, struct work **ready)
{
	struct registry *registry = work->server->registry;
	int status = GPUSHARE_OK;
	const char *name;

	if (!may_answer(lease) || registry->leaving)
		return;
	fault = refuse(work, lease, fault);
	if (fault) {
		user_answered(registry, lease->user, 0, fault);
		audit_request(registry, lease, NULL, &registry->reply);
	} else if (work->request.which_verb == gpushare_Request_list_tag) {
		answer_list(work, lease, ready);
		return;
	} else {
		status = handle_request(registry, lease, &work->request, &registry->reply);
	}
	if (status == HANDLE_WAIT || status == HANDLE_MORE) {
		park(work, lease, status == HANDLE_MORE);
		return;
	}
	put_answer(work, &registry->reply);
	push_ready(work, lease, ready);
	name = fault || status != GPUSHARE_OK ? NULL : handle_shown_name(&work->request);
	if (name)
		serve_waiters(registry, name, ready);
}

/* Without the lock: a group's name may have to be asked for. */
static int read_request(struct work *work, struct identity_group *out_group)
{
	int fault = codec_decode_request(nng_msg_body(work->message), nng_msg_len(work->message),
					 &work->request);
	uint64_t uid = 0;

	*out_group = (struct identity_group){.gid = IDENTITY_NO_GROUP};
	if (!fault && work->request.which_verb == gpushare_Request_share_tag &&
	    *work->request.verb.share.group &&
	    !nng_pipe_get_uint64(work->pipe, NNG_OPT_IPC_PEER_UID, &uid))
		identity_find_group(work->request.verb.share.group, (uint32_t)uid, out_group);
	return fault;
}

static void on_received(struct work *work)
{
	struct server *server = work->server;
	struct registry *registry = server->registry;
	struct work *ready = NULL;
	struct lease *lease;
	struct identity_group group;
	int fault, pause_ms = 0;
	bool again, first;

	take_message(work);
	work->pipe = nng_msg_get_pipe(work->message);
	fault = read_request(work, &group);

	pthread_mutex_lock(&registry->lock);
	server->receiving--;
	if (server->receiving < LIMIT_CONTEXTS_LOW)
		eventfd_write(server->wake, 1);
	/* A request may be handed over after its connection went: that must not leave a trace. */
	lease = lease_find(&registry->leases, (uint32_t)nng_pipe_id(work->pipe));
	registry->group = group;
	if (lease)
		answer_request(work, fault, lease, &ready);
	again = work->state == WORK_RECEIVING;
	if (again)
		drop_message(work);
	first = work->state == WORK_QUEUED && work->user->lists == work;
	if (first)
		pause_ms = list_pause_ms(work->user);
	pthread_mutex_unlock(&registry->lock);

	/* A work that was parked or queued behind another may be in other hands by now. */
	if (again)
		work_receive(work);
	if (first)
		sleep_list(work, pause_ms);
	work_send(ready);
}

/* Under the lock. A list leaves its queue: to *dropped if its connection is gone, else to *ready, or
 * to the queue's end where it is half made. */
static void serve_list(struct work *work, struct work **ready, struct work **dropped)
{
	struct registry *registry = work->server->registry;
	struct lease *lease = lease_find(&registry->leases, (uint32_t)nng_pipe_id(work->pipe));

	DL_DELETE2(work->user->lists, work, prev_list, next_list);
	work->user->list_count--;
	if (lease && !registry->leaving) {
		if (!make_list(work, lease, ready))
			queue_list(work);
		return;
	}
	if (lease)
		lease->unread--;
	work->user->unread--;
	drop_rest(work);
	drop_message(work);
	work->next_ready = *dropped;
	*dropped = work;
}

/* The pause is over: as many lists of the work's user as fit into its time. */
static void on_turn(struct work *work)
{
	struct registry *registry = work->server->registry;
	struct user *user = work->user;
	struct work *ready = NULL, *dropped = NULL, *next;
	int pause_ms = 0;

	pthread_mutex_lock(&registry->lock);
	while ((next = user->lists) && !(pause_ms = list_pause_ms(user)))
		serve_list(next, &ready, &dropped);
	pthread_mutex_unlock(&registry->lock);

	if (next)
		sleep_list(next, pause_ms);
	while (dropped) {
		struct work *again = dropped;

		dropped = again->next_ready;
		work_receive(again);
	}
	work_send(ready);
}

static void on_sent(struct work *work, int result)
{
	struct registry *registry = work->server->registry;
	struct lease *lease;

	if (result) {
		/* It takes no answers: then it gets none. */
		take_message(work);
		drop_message(work);
	}
	pthread_mutex_lock(&registry->lock);
	lease = lease_find(&registry->leases, (uint32_t)nng_pipe_id(work->pipe));
	if (lease)
		lease->unread--;
	work->user->unread--;
	pthread_mutex_unlock(&registry->lock);
	work_receive(work);
}

static void on_done(void *argument)
{
	struct work *work = argument;
	struct registry *registry = work->server->registry;
	int result = nng_aio_result(work->aio);
	enum work_state state;

	pthread_mutex_lock(&registry->lock);
	state = work->state;
	if (result == NNG_ECLOSED) {
		if (state == WORK_RECEIVING)
			work->server->receiving--;
		work->state = WORK_CLOSED;
	}
	pthread_mutex_unlock(&registry->lock);

	if (result == NNG_ECLOSED) {
		if (state == WORK_SENDING) {
			take_message(work);
			drop_message(work);
		}
		return;
	}
	if (state == WORK_SENDING) {
		on_sent(work, result);
	} else if (state == WORK_QUEUED) {
		on_turn(work);
	} else if (result) {
		log_line("receiving failed: %s", nng_strerror(result));
		pthread_mutex_lock(&registry->lock);
		work->server->receiving--;
		pthread_mutex_unlock(&registry->lock);
		work_receive(work);
	} else {
		on_received(work);
	}
}

struct work *work_new(struct server *server)
{
	struct work *work = calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	work->server = server;
	if (nng_aio_alloc(&work->aio, on_done, work)) {
		free(work);
		return NULL;
	}
	if (nng_ctx_open(&work->context, server->socket)) {
		nng_aio_free(work->aio);
		free(work);
		return NULL;
	}
	return work;
}

void work_stop(struct work *work)
{
	nng_aio_stop(work->aio);
}

struct work *work_free(struct work *work)
{
	drop_rest(work);
	drop_message(work);
	take_message(work);
	drop_message(work);
	nng_aio_free(work->aio);
	free(work);
	return NULL;
}

void work_receive(struct work *work)
{
	struct registry *registry = work->server->registry;

	pthread_mutex_lock(&registry->lock);
	work->state = WORK_RECEIVING;
	work->server->receiving++;
	pthread_mutex_unlock(&registry->lock);
	nng_aio_set_timeout(work->aio, NNG_DURATION_INFINITE);
	nng_ctx_recv(work->context, work->aio);
}

void work_send(struct work *ready)
{
	while (ready) {
		struct work *work = ready;

		ready = work->next_ready;
		nng_aio_set_timeout(work->aio, LIMIT_UNREAD_MS);
		give_message(work);
		nng_ctx_send(work->context, work->aio);
	}
}
