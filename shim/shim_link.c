/* SPDX-License-Identifier: MIT */
#include "shim_link.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 30000
#define SLICE_MS 100

static struct {
	pthread_mutex_t lock;
	struct client *client;
	int64_t quiet_until_ms; /* after a failure of the transport */
	int64_t pause_ms;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* The child drops its copy of the fd: the parent's lease must end with the parent. */
static void drop_in_child(void)
{
	if (line.client)
		client_disconnect(line.client);
}

/* Take the lock within the deadline and have a client; E_TIMED_OUT, E_NO_REGISTRY, E_NO_MEMORY. */
static int enter(char *why, size_t why_size)
{
	struct client_options options = {.who = "shim", .autostart = true};
	struct timespec until;
	unsigned int limit_ms = client_default_timeout_ms();

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += limit_ms / 1000;
	until.tv_nsec += limit_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	if (pthread_mutex_clocklock(&line.lock, CLOCK_MONOTONIC, &until)) {
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
	if (line.quiet_until_ms && now_ms() < line.quiet_until_ms) {
		pthread_mutex_unlock(&line.lock);
		snprintf(why, why_size, "the registry failed a moment ago; not asked again yet");
		return GPUSHARE_E_NO_REGISTRY;
	}
	return GPUSHARE_OK;
}

/* One call with the lock held; keeps count of the transport's failures. */
static int call(unsigned int extra_ms, char *why, size_t why_size)
{
	int status = client_call(line.client, extra_ms);

	if (status != GPUSHARE_OK)
		snprintf(why, why_size, "%s", line.client->why);
	if (status == GPUSHARE_OK || line.client->fd >= 0) {
		line.quiet_until_ms = 0;
		line.pause_ms = 0;
		return status;
	}
	line.pause_ms = line.pause_ms ? line.pause_ms * 2 : PAUSE_MIN_MS;
	if (line.pause_ms > PAUSE_MAX_MS)
		line.pause_ms = PAUSE_MAX_MS;
	line.quiet_until_ms = now_ms() + line.pause_ms;
	return status;
}

static request *ask(pb_size_t verb)
{
	request *question = &line.client->request;

	memset(question, 0, sizeof(*question));
	question->which_verb = verb;
	return question;
}

int link_share(const record *what, const uint8_t handle[GPUSHARE_HANDLE_SIZE],
	       uint64_t *out_generation, char *why, size_t why_size)
{
	gpushare_Share *share;
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	share = &ask(gpushare_Request_share_tag)->verb.share;
	share->has_buffer = true;
	share->buffer = *what;
	memcpy(share->handle, handle, GPUSHARE_HANDLE_SIZE);
	status = call(0, why, why_size);
	if (status == GPUSHARE_OK)
		*out_generation = line.client->reply.body.share.generation;
	pthread_mutex_unlock(&line.lock);
	return status;
}

static int attach_slice(const char *name, unsigned int wait_ms, record *out_record,
			uint8_t out_handle[GPUSHARE_HANDLE_SIZE], bool *out_own, char *why,
			size_t why_size)
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
		const gpushare_AttachReply *answer = &line.client->reply.body.attach;

		*out_record = answer->buffer;
		*out_own = answer->own;
		memcpy(out_handle, answer->handle, GPUSHARE_HANDLE_SIZE);
	}
	pthread_mutex_unlock(&line.lock);
	return status;
}

/* A long wait is many short ones, so that other threads get their turn on the connection. */
int link_attach(const char *name, unsigned int wait_ms, record *out_record,
		uint8_t out_handle[GPUSHARE_HANDLE_SIZE], bool *out_own, char *why, size_t why_size)
{
	int64_t until = now_ms() + wait_ms;
	int status;

	for (;;) {
		int64_t left = until - now_ms();
		unsigned int slice = left <= 0 ? 0 : left < SLICE_MS ? (unsigned int)left : SLICE_MS;

		status = attach_slice(name, slice, out_record, out_handle, out_own, why, why_size);
		if (left <= 0 || (status != GPUSHARE_E_TIMED_OUT && status != GPUSHARE_E_NO_REGISTRY))
			return status;
		if (status == GPUSHARE_E_NO_REGISTRY)
			poll(NULL, 0, (int)slice);
	}
}

/* A lease that is gone has taken its names and attachments along: nothing to say then. */
static int release(bool withdraw, const char *name, uint64_t generation, char *why, size_t why_size)
{
	int status = enter(why, why_size);

	if (status != GPUSHARE_OK)
		return status;
	if (line.client->fd >= 0 && withdraw) {
		gpushare_Withdraw *verb = &ask(gpushare_Request_withdraw_tag)->verb.withdraw;

		snprintf(verb->name, sizeof(verb->name), "%s", name);
		verb->generation = generation;
		status = call(0, why, why_size);
	} else if (line.client->fd >= 0) {
		gpushare_Detach *verb = &ask(gpushare_Request_detach_tag)->verb.detach;

		snprintf(verb->name, sizeof(verb->name), "%s", name);
		verb->generation = generation;
		status = call(0, why, why_size);
	}
	pthread_mutex_unlock(&line.lock);
	return status;
}

int link_withdraw(const char *name, uint64_t generation, char *why, size_t why_size)
{
	return release(true, name, generation, why, why_size);
}

int link_detach(const char *name, uint64_t generation, char *why, size_t why_size)
{
	return release(false, name, generation, why, why_size);
}
