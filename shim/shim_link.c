/* SPDX-License-Identifier: MIT */
#include "shim_link.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client_fds.h"
#include "monotonic.h"
#include "shim_lock.h"

#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 30000
#define SLICE_MS 100
#define SLICE_QUEUED_MS 10 /* while others wait */

static struct {
	pthread_mutex_t lock;
	atomic_uint queued; /* threads that wait for it */
	struct client *client;
	int64_t quiet_until_ms; /* after a failure of the transport */
	int64_t pause_ms;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The child drops its copy of the fd: the parent's lease must end with the parent. */
static void drop_in_child(void)
{
	if (line.client)
		client_disconnect(line.client);
}

/* Take the lock and have a client; E_TIMED_OUT, E_NO_REGISTRY, E_NO_MEMORY. */
static int enter(char *why, size_t why_size)
{
	struct client_options options = {.who = "shim", .autostart = true};
	bool taken;

	atomic_fetch_add_explicit(&line.queued, 1, memory_order_relaxed);
	taken = lock_take_within(&line.lock, client_default_timeout_ms());
	atomic_fetch_sub_explicit(&line.queued, 1, memory_order_relaxed);
	if (!taken) {
		snprintf(why, why_size, "another thread's registry call took too long");
		return GPUSHARE_E_TIMED_OUT;
	}
	if (!line.client) {
		line.client = client_new(&options);
		if (line.client)
			pthread_atfork(NULL, NULL, drop_in_child);
	}
	if (!line.client) {
		pthread_mutex_unlock(&line.lock);
		snprintf(why, why_size, "out of memory");
		return GPUSHARE_E_NO_MEMORY;
	}
	if (line.quiet_until_ms && monotonic_ms() < line.quiet_until_ms) {
		pthread_mutex_unlock(&line.lock);
		snprintf(why, why_size, "the registry failed a moment ago; not asked again yet");
		return GPUSHARE_E_NO_REGISTRY;
	}
	return GPUSHARE_OK;
}

/* Keep count of the transport's failures. With the lock held, like all below. */
static void note(bool reached)
{
	if (reached) {
		line.quiet_until_ms = 0;
		line.pause_ms = 0;
		return;
	}
	line.pause_ms = line.pause_ms ? line.pause_ms * 2 : PAUSE_MIN_MS;
	if (line.pause_ms > PAUSE_MAX_MS)
		line.pause_ms = PAUSE_MAX_MS;
	line.quiet_until_ms = monotonic_ms() + line.pause_ms;
}

static int call(unsigned int extra_ms, char *why, size_t why_size)
{
	int status = client_call(line.client, extra_ms);

	if (status != GPUSHARE_OK)
		snprintf(why, why_size, "%s", line.client->why);
	note(status == GPUSHARE_OK || line.client->fd >= 0);
	return status;
}

/* After something that began then: a call that has the rest of the time that both have together. */
static int call_since(int64_t began_ms, char *why, size_t why_size)
{
	unsigned int limit_ms = line.client->timeout_ms;
	int64_t spent_ms = monotonic_ms() - began_ms;
	int status;

	line.client->timeout_ms = spent_ms < limit_ms ? limit_ms - (unsigned int)spent_ms : 1;
	status = call(0, why, why_size);
	line.client->timeout_ms = limit_ms;
	return status;
}

static request *ask(pb_size_t verb)
{
	request *question = &line.client->request;

	memset(question, 0, sizeof(*question));
	question->which_verb = verb;
	return question;
}

/* Whether a call to fds.sock failed by the registry's word, not for want of one. */
static bool is_answer(int status)
{
	return status != GPUSHARE_E_NO_REGISTRY && status != GPUSHARE_E_TIMED_OUT;
}

static int deposit(int fd, uint8_t (*out_ticket)[GPUSHARE_TICKET_SIZE], char *why, size_t why_size)
{
	int status = client_deposit(line.client, &fd, 1, out_ticket);

	if (status != GPUSHARE_OK)
		snprintf(why, why_size, "%s", line.client->why);
	note(is_answer(status));
	return status;
}

int link_share(const record *what, const uint8_t handle[GPUSHARE_HANDLE_SIZE], int fd,
	       uint64_t *out_generation, char *why, size_t why_size)
{
	uint8_t ticket[1][GPUSHARE_TICKET_SIZE] = {{0}};
	gpushare_Share *share;
	int64_t began_ms;
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	began_ms = monotonic_ms();
	if (fd >= 0)
		status = deposit(fd, ticket, why, why_size);
	if (status == GPUSHARE_OK) {
		share = &ask(gpushare_Request_share_tag)->verb.share;
		share->has_buffer = true;
		share->buffer = *what;
		if (handle)
			memcpy(share->handle, handle, GPUSHARE_HANDLE_SIZE);
		memcpy(share->ticket, ticket, sizeof(share->ticket));
		status = call_since(began_ms, why, why_size);
	}
	if (status == GPUSHARE_OK)
		*out_generation = line.client->reply.body.share.generation;
	pthread_mutex_unlock(&line.lock);
	return status;
}

/* What was just adopted; without its descriptor it is left to itself again. */
static int fetch_adopted(const gpushare_ShareReply *answer, int *out_fd, char *why, size_t why_size)
{
	int status = client_withdraw(line.client, answer->ticket, out_fd);
	gpushare_Withdraw *withdraw;

	if (status == GPUSHARE_OK)
		return status;
	snprintf(why, why_size, "%s", line.client->why);
	if (line.client->fd >= 0) {
		withdraw = &ask(gpushare_Request_withdraw_tag)->verb.withdraw;
		snprintf(withdraw->name, sizeof(withdraw->name), "%s", answer->buffer.name);
		withdraw->generation = answer->generation;
		client_call(line.client, 0);
	}
	note(is_answer(status));
	return status;
}

int link_adopt(const record *what, record *out_record, int *out_fd, char *why, size_t why_size)
{
	gpushare_ShareReply answer;
	gpushare_Share *share;
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	share = &ask(gpushare_Request_share_tag)->verb.share;
	share->has_buffer = true;
	share->buffer = *what;
	share->adopt = true;
	status = call(0, why, why_size);
	if (status == GPUSHARE_OK) {
		answer = line.client->reply.body.share;
		status = fetch_adopted(&answer, out_fd, why, why_size);
	}
	if (status == GPUSHARE_OK)
		*out_record = answer.buffer;
	pthread_mutex_unlock(&line.lock);
	return status;
}

/* The descriptor of what was just attached; without one the attachment is given back. */
static int fetch(const gpushare_AttachReply *answer, int *out_fd, char *why, size_t why_size)
{
	int status = client_withdraw(line.client, answer->ticket, out_fd);
	gpushare_Detach *detach;

	if (status == GPUSHARE_OK)
		return status;
	snprintf(why, why_size, "%s", line.client->why);
	if (line.client->fd >= 0) { /* else the lease has taken it along */
		detach = &ask(gpushare_Request_detach_tag)->verb.detach;
		snprintf(detach->name, sizeof(detach->name), "%s", answer->buffer.name);
		detach->generation = answer->buffer.generation;
		client_call(line.client, 0);
	}
	note(is_answer(status));
	return status;
}

static int attach_slice(const char *name, unsigned int wait_ms, gpushare_AttachReply *out_answer,
			int *out_fd, char *why, size_t why_size)
{
	gpushare_Attach *attach;
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	attach = &ask(gpushare_Request_attach_tag)->verb.attach;
	snprintf(attach->name, sizeof(attach->name), "%s", name);
	attach->wait_ms = wait_ms;
	status = call(wait_ms, why, why_size);
	if (status == GPUSHARE_OK) {
		*out_answer = line.client->reply.body.attach;
		if (backing_is_fd(out_answer->buffer.backing))
			status = fetch(out_answer, out_fd, why, why_size);
	}
	pthread_mutex_unlock(&line.lock);
	return status;
}

/* A long wait is many short ones, so that other threads get their turn on the connection. */
int link_attach(const char *name, unsigned int wait_ms, record *out_record,
		uint8_t out_handle[GPUSHARE_HANDLE_SIZE], int *out_fd, bool *out_own, char *why,
		size_t why_size)
{
	gpushare_AttachReply answer;
	int64_t until = monotonic_ms() + wait_ms;
	int status, fd = -1;

	for (;;) {
		bool queued = atomic_load_explicit(&line.queued, memory_order_relaxed);
		unsigned int most = queued ? SLICE_QUEUED_MS : SLICE_MS;
		int64_t left = until - monotonic_ms();
		unsigned int slice = left <= 0 ? 0 : left < most ? (unsigned int)left : most;

		status = attach_slice(name, slice, &answer, &fd, why, why_size);
		if (left <= 0 ||
		    (status != GPUSHARE_E_TIMED_OUT && status != GPUSHARE_E_NO_REGISTRY))
			break;
		if (status == GPUSHARE_E_NO_REGISTRY)
			poll(NULL, 0, (int)slice);
		else if (atomic_load_explicit(&line.queued, memory_order_relaxed))
			poll(NULL, 0, 1); /* the lock goes to who is awake first */
	}
	if (status != GPUSHARE_OK)
		return status;
	*out_record = answer.buffer;
	*out_own = answer.own;
	*out_fd = fd;
	memcpy(out_handle, answer.handle, GPUSHARE_HANDLE_SIZE);
	return GPUSHARE_OK;
}

/* A page of names above `after`, which moves on. E_NOT_FOUND: it is not there, and no more follow. */
static int find_in_page(const char *glob, char *after, uint64_t generation, bool *out_found,
			char *why, size_t why_size)
{
	const gpushare_ListReply *page;
	gpushare_List *list;
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	list = &ask(gpushare_Request_list_tag)->verb.list;
	snprintf(list->glob, sizeof(list->glob), "%s", glob);
	snprintf(list->after, sizeof(list->after), "%s", after);
	status = call(0, why, why_size);
	page = &line.client->reply.body.list;
	for (pb_size_t i = 0; status == GPUSHARE_OK && !*out_found && i < page->buffers_count;
	     i++) {
		*out_found = page->buffers[i].generation == generation;
		snprintf(after, GPUSHARE_NAME_MAX + 1, "%s", page->buffers[i].name);
	}
	if (status == GPUSHARE_OK && !*out_found && !page->more) {
		status = GPUSHARE_E_NOT_FOUND;
		snprintf(why, why_size, "it is shared no more");
	}
	pthread_mutex_unlock(&line.lock);
	return status;
}

int link_find(const char *glob, uint64_t generation, char out_name[GPUSHARE_NAME_MAX + 1],
	      char *why, size_t why_size)
{
	char name[GPUSHARE_NAME_MAX + 1] = "";
	bool found = false;
	int status = GPUSHARE_OK;

	while (status == GPUSHARE_OK && !found)
		status = find_in_page(glob, name, generation, &found, why, why_size);
	if (status == GPUSHARE_OK)
		memcpy(out_name, name, sizeof(name));
	return status;
}

static bool said_limbo(const reply *answer)
{
	return answer->which_body == gpushare_Reply_withdraw_tag && answer->body.withdraw.limbo;
}

/* A lease that is gone has taken its names and attachments along: nothing to say then. */
static int release(bool withdraw, bool *limbo, const char *name, uint64_t generation, char *why,
		   size_t why_size)
{
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	if (line.client->fd >= 0 && withdraw) {
		gpushare_Withdraw *verb = &ask(gpushare_Request_withdraw_tag)->verb.withdraw;

		snprintf(verb->name, sizeof(verb->name), "%s", name);
		verb->generation = generation;
		verb->limbo = limbo != NULL;
		status = call(0, why, why_size);
		if (limbo)
			*limbo = status == GPUSHARE_OK && said_limbo(&line.client->reply);
	} else if (line.client->fd >= 0) {
		gpushare_Detach *verb = &ask(gpushare_Request_detach_tag)->verb.detach;

		snprintf(verb->name, sizeof(verb->name), "%s", name);
		verb->generation = generation;
		status = call(0, why, why_size);
	}
	pthread_mutex_unlock(&line.lock);
	return status;
}

int link_withdraw(const char *name, uint64_t generation, bool *limbo, char *why, size_t why_size)
{
	return release(true, limbo, name, generation, why, why_size);
}

int link_detach(const char *name, uint64_t generation, char *why, size_t why_size)
{
	return release(false, NULL, name, generation, why, why_size);
}

int link_limbo(uint64_t *generations, size_t *count, char *why, size_t why_size)
{
	const gpushare_LimboReply *left;
	gpushare_Limbo *verb;
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	verb = &ask(gpushare_Request_limbo_tag)->verb.limbo;
	memcpy(verb->generations, generations, *count * sizeof(*generations));
	verb->generations_count = (pb_size_t)*count;
	status = call(0, why, why_size);
	left = &line.client->reply.body.limbo;
	if (status == GPUSHARE_OK) {
		*count = left->generations_count;
		memcpy(generations, left->generations, *count * sizeof(*generations));
	}
	pthread_mutex_unlock(&line.lock);
	return status;
}
