/* SPDX-License-Identifier: MIT */
/* gpushare_commit(): make a staged buffer visible to every process. */
#include <string.h>

#include "api_session.h"

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

static bool is_staged(const struct gpushare_buffer *buffer)
{
	bool staged;

	session_lock(buffer->session);
	staged = buffer->info.flags & GPUSHARE_FLAG_STAGED;
	pthread_mutex_unlock(&buffer->session->lock);
	return staged;
}

API_PUBLIC int gpushare_commit(struct gpushare_buffer *buffer)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_commit_tag};
	int status = session_check_buffer(buffer);
	pthread_mutex_t *lock;

	if (!status && buffer_is_attached(buffer))
		status =
		    api_fail(GPUSHARE_E_INVALID, "'%s' is attached here; its owner can commit it",
			     buffer->info.name);
	if (status)
		return status;
	lock = &buffer->session->committing;
	if (!session_take(buffer->session, lock))
		return api_fail(GPUSHARE_E_TIMED_OUT,
				"another thread commits a buffer, and the registry has not "
				"answered it in time");
	memcpy(ask.verb.commit.name, buffer->info.name, sizeof(ask.verb.commit.name));
	if (is_staged(buffer))
		status = commit(buffer, &ask);
	pthread_mutex_unlock(lock);
	return status;
}
