/* SPDX-License-Identifier: MIT */
/* gpushare_commit(): make a staged buffer visible to every process. */
#include <poll.h>
#include <string.h>

#include "api_session.h"
#include "base/monotonic.h"

/* Returns the buffer's generation at that moment. */
static uint64_t mark_staged(struct gpushare_buffer *buffer, bool staged)
{
	uint64_t generation;

	session_lock(buffer->session);
	generation = buffer->info.generation;
	if (staged)
		buffer->info.flags |= GPUSHARE_FLAG_STAGED;
	else
		buffer->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
	pthread_mutex_unlock(&buffer->session->lock);
	return generation;
}

/* The flag is cleared before the request. So a new registry, to which the session shares the buffer
 * again, gets it as not staged, and may give it another generation. If such a registry answers
 * E_NOT_FOUND, try again with the present generation. */
static int commit(struct gpushare_buffer *buffer, request *ask)
{
	struct gpushare_session *session = buffer->session;
	unsigned int before, tries = CLIENT_ENDINGS;
	int status;

	do {
		before = session_connections(session);
		ask->verb.commit.generation = mark_staged(buffer, false);
		status = session_ask(session, ask, 0, NULL, 0);
		if (status)
			mark_staged(buffer, true);
	} while (status == GPUSHARE_E_NOT_FOUND && session_connections(session) != before &&
		 --tries);
	return status;
}

/* *out_asks: this thread must ask the registry, as the buffer is staged and no other thread asks.
 * E_TIMED_OUT: another thread has been asking for too long. */
static int begin_commit(struct gpushare_buffer *buffer, bool *out_asks)
{
	struct gpushare_session *session = buffer->session;
	int64_t began_ms = monotonic_ms(), until_ms = session_deadline(session);
	bool busy;

	for (;;) {
		session_lock(session);
		busy = buffer->committing;
		*out_asks = !busy && buffer->info.flags & GPUSHARE_FLAG_STAGED;
		buffer->committing |= *out_asks;
		pthread_mutex_unlock(&session->lock);
		if (!busy) {
			session_waited(began_ms);
			return GPUSHARE_OK;
		}
		if (monotonic_ms() >= until_ms)
			return api_fail(GPUSHARE_E_TIMED_OUT,
					"another thread commits '%s', and the registry has not "
					"answered that in time",
					buffer->info.name);
		poll(NULL, 0, 1);
	}
}

static void end_commit(struct gpushare_buffer *buffer)
{
	session_lock(buffer->session);
	buffer->committing = false;
	pthread_mutex_unlock(&buffer->session->lock);
}

API_PUBLIC int gpushare_commit(struct gpushare_buffer *buffer)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_commit_tag};
	int status = session_check_buffer(buffer);
	bool asks = false;

	if (!status && buffer_is_attached(buffer))
		status =
		    api_fail(GPUSHARE_E_INVALID, "'%s' is attached here; who shared it commits it",
			     buffer->info.name);
	if (!status)
		status = begin_commit(buffer, &asks);
	if (!asks)
		return status;
	memcpy(ask.verb.commit.name, buffer->info.name, sizeof(ask.verb.commit.name));
	status = commit(buffer, &ask);
	end_commit(buffer);
	return status;
}
