/* SPDX-License-Identifier: MIT */
/* A session's deferred frees: memory of gpushare_alloc() and events of gpushare_event_create() that
 * other processes have attached when they are freed. */
#include "api_used.h"

#include <stdlib.h>
#include <string.h>

static int ask_left(void *user, uint64_t generations[DEFERRED_MAX], size_t *count)
{
	request ask = {.which_verb = gpushare_Request_deferred_tag};
	gpushare_DeferredReply left = {.generations_count = 0};
	int status;

	memcpy(ask.verb.deferred.generations, generations, *count * sizeof(*generations));
	ask.verb.deferred.generations_count = (pb_size_t)*count;
	status = session_tell_of(user, &ask, NULL, BODY(deferred, &left));
	if (status)
		return status;
	*count = left.generations_count;
	memcpy(generations, left.generations, *count * sizeof(*generations));
	return GPUSHARE_OK;
}

void session_deferred_init(struct gpushare_session *session)
{
	pthread_mutex_init(&session->deferred.lock, NULL);
	pthread_mutex_init(&session->events.lock, NULL);
	deferred_set_limit(&session->deferred,
			   deferred_parse(secure_getenv("GPUSHARE_DEFERRED_FREE")));
}

static void give_back(struct gpushare_session *session, const struct deferred_entry *entry)
{
	if (entry->size)
		alloc_free(session->driver, entry->context, entry->pointer);
	else
		used_drop(entry->pointer);
}

void session_deferred_sweep(struct gpushare_session *session)
{
	struct deferred *const all[] = {&session->deferred, &session->events};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct deferred_entry *left = deferred_take_left(all[i], ask_left, session);

		for (; left; left = deferred_next(left))
			give_back(session, left);
	}
}

/* Free the list's entries even if other processes still have them attached. */
static void give_up(struct gpushare_session *session, struct deferred_entry *list)
{
	for (; list; list = deferred_next(list)) {
		struct gpushare_info info = {.generation = list->generation};

		give_back(session, list);
		memcpy(info.name, list->name, sizeof(info.name));
		session_tell_withdraw(session, &info);
	}
}

bool session_deferred_empty(struct gpushare_session *session, bool events)
{
	struct deferred_entry *all = deferred_take_all(&session->deferred);

	give_up(session, all);
	if (events)
		give_up(session, deferred_take_all(&session->events));
	return all != NULL;
}

void session_deferred_finish(struct gpushare_session *session)
{
	struct deferred *const all[] = {&session->deferred, &session->events};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct deferred_entry *left = deferred_take_all(all[i]);

		while (left)
			left = deferred_next(left);
	}
}

/* If no registry answers, the next one counts the buffer as freed, because this session no longer
 * lists it. That registry knows which processes have it attached. */
bool session_deferred_leave(struct gpushare_session *session, const struct gpushare_buffer *buffer)
{
	request ask = {.which_verb = gpushare_Request_withdraw_tag};
	gpushare_WithdrawReply answer;
	int status;

	if (!deferred_fits(&session->deferred, buffer->info.base_size)) {
		session_tell_withdraw(session, &buffer->info);
		return false;
	}
	ask.verb.withdraw.deferred = true;
	ask.verb.withdraw.generation = buffer->info.generation;
	memcpy(ask.verb.withdraw.name, buffer->info.name, sizeof(buffer->info.name));
	status = session_tell_of(session, &ask, NULL, BODY(withdraw, &answer));
	return status == GPUSHARE_E_NOT_READY || status == GPUSHARE_E_TIMED_OUT ||
	       (!status && answer.deferred);
}

/* Wait for the GPU's work, as cuMemFree does. */
static bool wait_for_work(const struct driver *driver, cu_context context)
{
	_device_scope_ struct device_scope scope = {NULL};

	return !device_enter(driver, context, &scope) && deferred_stand_in(driver) == CU_OK;
}

bool session_deferred_put(struct gpushare_session *session, const struct gpushare_buffer *buffer)
{
	struct deferred *deferred = buffer_is_event(buffer) ? &session->events : &session->deferred;
	struct deferred_entry entry = {.pointer = buffer->pointer,
				       .size = buffer->info.base_size,
				       .generation = buffer->info.generation,
				       .context = buffer->context};

	memcpy(entry.name, buffer->info.name, sizeof(entry.name));
	if ((entry.size && !wait_for_work(session->driver, buffer->context)) ||
	    !deferred_put(deferred, &entry)) {
		session_tell_withdraw(session, &buffer->info);
		return false;
	}
	give_up(session, deferred_take_over(deferred));
	return true;
}
