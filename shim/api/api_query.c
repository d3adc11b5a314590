/* SPDX-License-Identifier: MIT */
/* What the registry knows: single buffers; lists of buffers, a page of records at a time; tags; the
 * processes that have a buffer attached; the registry's own numbers. */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"

API_PUBLIC int gpushare_unlink(struct gpushare_session *session, const char *name)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_withdraw_tag};
	int status = session_check_name(session, name);

	if (status)
		return status;
	memcpy(ask.verb.withdraw.name, name, strlen(name) + 1);
	return session_ask(session, &ask, NO_BODY);
}

/* Look the name up in the registry's index page, or by a request if it is not there. */
static int query_look_up(struct gpushare_session *session, const char *name, record *out_found)
{
	request ask = {.which_verb = gpushare_Request_lookup_tag};
	gpushare_LookupReply answer;
	bool is_there;
	int status;

	if (!session_look_client(session))
		return session_fail_client(session);
	is_there = client_look_up(session->client, name, out_found);
	session_give_client(session);
	if (is_there)
		return GPUSHARE_OK;
	memcpy(ask.verb.lookup.name, name, strlen(name) + 1);
	status = session_ask(session, &ask, BODY(lookup, &answer));
	if (!status)
		*out_found = answer.buffer;
	if (session_try_client(session, session_deadline(session))) {
		client_has_looked_up(session->client);
		session_give_client(session);
	}
	return status;
}

API_PUBLIC int gpushare_stat(struct gpushare_session *session, const char *name,
			     struct gpushare_info *out_info)
{
	API_CALL;
	record found;
	int status = API_NEED(session_check_name(session, name), out_info);

	if (status)
		return status;
	status = query_look_up(session, name, &found);
	if (!status)
		codec_read_info(&found, out_info);
	return status;
}

API_PUBLIC int gpushare_state(struct gpushare_buffer *buffer, enum gpushare_state *out_state)
{
	API_CALL;
	record found;
	int status = API_NEED(session_check_buffer(buffer), out_state);

	if (status)
		return status;
	status = query_look_up(buffer->session, buffer->info.name, &found);
	if (status && status != GPUSHARE_E_NOT_FOUND)
		return status;
	if (status)
		*out_state = GPUSHARE_STATE_WITHDRAWN;
	else if (found.generation != buffer->info.generation)
		*out_state = GPUSHARE_STATE_REPLACED;
	else
		*out_state = found.owner_gone ? GPUSHARE_STATE_KEPT : GPUSHARE_STATE_SHARED;
	return GPUSHARE_OK;
}

API_TEXTS(gpushare_state_text, enum gpushare_state, state, GPUSHARE_STATES)

API_PUBLIC uint64_t gpushare_pointer(const struct gpushare_buffer *buffer)
{
	return buffer ? buffer->pointer : 0;
}

API_PUBLIC size_t gpushare_size(const struct gpushare_buffer *buffer)
{
	return buffer ? buffer->info.size : 0;
}

API_PUBLIC int gpushare_device(const struct gpushare_buffer *buffer)
{
	return buffer ? buffer->device : -1;
}

API_PUBLIC int gpushare_is_read_only(const struct gpushare_buffer *buffer)
{
	return buffer && buffer->read_only;
}

API_PUBLIC int gpushare_was_adopted(const struct gpushare_buffer *buffer)
{
	return buffer && buffer->adopted;
}

API_PUBLIC int gpushare_buffer_info(const struct gpushare_buffer *buffer,
				    struct gpushare_info *out_info)
{
	API_CALL;
	if (!buffer || !out_info)
		return api_fail(GPUSHARE_E_INVALID, "%s is NULL", buffer ? "out_info" : "buffer");
	*out_info = buffer->info;
	return GPUSHARE_OK;
}

int tags_write(const char *name, const struct gpushare_tag *tags, size_t count,
	       gpushare_Tag out_tags[GPUSHARE_TAGS_MAX], pb_size_t *out_count)
{
	if (count > GPUSHARE_TAGS_MAX)
		return api_fail(GPUSHARE_E_LIMIT,
				"%zu tags for '%s', and a buffer has at most %d; set fewer", count,
				name, GPUSHARE_TAGS_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct gpushare_tag *tag = &tags[i];

		if (!memchr(tag->key, '\0', sizeof(tag->key)) ||
		    !memchr(tag->value, '\0', sizeof(tag->value)))
			return api_fail(GPUSHARE_E_INVALID,
					"tag %zu for '%s' is too long: a key has up to %d bytes, a "
					"value up to %d",
					i + 1, name, GPUSHARE_TAG_KEY_MAX, GPUSHARE_TAG_VALUE_MAX);
		strcpy(out_tags[i].key, tag->key);
		strcpy(out_tags[i].value, tag->value);
	}
	*out_count = (pb_size_t)count;
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_tag(struct gpushare_session *session, const char *name,
			    const struct gpushare_tag *tags, size_t count)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_tag_tag};
	int status = session_check_name(session, name);

	if (!status && count && !tags)
		status = api_fail(GPUSHARE_E_INVALID, "tags is NULL");
	if (!status)
		status = tags_write(name, tags, count, ask.verb.tag.tags, &ask.verb.tag.tags_count);
	if (status)
		return status;
	memcpy(ask.verb.tag.name, name, strlen(name) + 1);
	return session_ask(session, &ask, NO_BODY);
}

API_PUBLIC int gpushare_tags(struct gpushare_buffer *buffer, struct gpushare_tag *out_tags,
			     size_t *out_count)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_lookup_tag};
	gpushare_LookupReply answer;
	struct gpushare_info info;
	int status = API_NEED(API_NEED(session_check_buffer(buffer), out_tags), out_count);

	if (status)
		return status;
	memcpy(ask.verb.lookup.name, buffer->info.name, sizeof(buffer->info.name));
	status = session_ask(buffer->session, &ask, BODY(lookup, &answer));
	if (status)
		return status;
	if (answer.buffer.generation != buffer->info.generation)
		return api_fail(GPUSHARE_E_NOT_FOUND,
				"'%s' is another buffer's name now; this buffer's tags are gone",
				buffer->info.name);
	codec_read_info(&answer.buffer, &info);
	memcpy(out_tags, info.tags, sizeof(info.tags));
	*out_count = info.tag_count;
	return GPUSHARE_OK;
}

static int holders_page(const gpushare_HoldersReply *page, const char *name, uint32_t *after,
			int (*visit)(const struct gpushare_holder *holder, void *user), void *user)
{
	for (pb_size_t i = 0; i < page->holders_count; i++) {
		const gpushare_Holder *from = &page->holders[i];
		struct gpushare_holder holder = {
		    .pid = from->pid,
		    .uid = from->uid,
		    .started = from->started,
		    .count = from->count,
		    .own = from->own,
		};

		if (from->connection <= *after)
			return api_fail(
			    GPUSHARE_E_PROTOCOL,
			    "the registry's list of the processes that have '%s' is out of order",
			    name);
		*after = from->connection;
		memcpy(holder.command, from->command, sizeof(holder.command));
		if (visit(&holder, user))
			return api_fail(
			    GPUSHARE_E_CANCELLED,
			    "the callback ended the list of the processes that have '%s'", name);
	}
	if (page->more && !page->holders_count)
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry says that more processes have '%s', but lists none",
				name);
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_holders(struct gpushare_session *session, const char *name,
				uint64_t generation,
				int (*visit)(const struct gpushare_holder *holder, void *user),
				void *user)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_holders_tag};
	_cleanup_free_ gpushare_HoldersReply *page = NULL;
	int status = API_NEED(session_check_name(session, name), visit);

	page = status ? NULL : malloc(sizeof(*page));
	if (!status && !page)
		status = api_fail(GPUSHARE_E_NO_MEMORY,
				  "no memory to list the processes that have '%s'", name);
	if (status)
		return status;
	memcpy(ask.verb.holders.name, name, strlen(name) + 1);
	ask.verb.holders.generation = generation;
	do {
		status = session_ask(session, &ask, BODY(holders, page));
		if (!status)
			status = holders_page(page, name, &ask.verb.holders.after, visit, user);
	} while (!status && page->more);
	return status;
}

/* Fetch a page, and change `ask` to fetch the next one. E_PROTOCOL: the registry makes no progress,
 * so the listing would never end. */
static int list_page(struct gpushare_session *session, request *ask, gpushare_ListReply *out_page)
{
	gpushare_List *list = &ask->verb.list;
	int status = session_ask(session, ask, BODY(list, out_page));

	if (status || !out_page->more)
		return status;
	if (list->deferred ? out_page->after_generation <= list->after_generation
			   : strcmp(out_page->after, list->after) <= 0)
		return api_fail(
		    GPUSHARE_E_PROTOCOL,
		    "the registry says that its list goes on, but not after which name");
	memcpy(list->after, out_page->after, sizeof(list->after));
	list->after_generation = out_page->after_generation;
	return GPUSHARE_OK;
}

static int list_all(struct gpushare_session *session, request *ask,
		    int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	_cleanup_free_ gpushare_ListReply *page = malloc(sizeof(*page));

	if (!page)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to list buffers");
	do {
		int status = list_page(session, ask, page);

		if (status)
			return status;
		for (pb_size_t i = 0; i < page->buffers_count; i++) {
			struct gpushare_info info;

			codec_read_info(&page->buffers[i], &info);
			if (visit(&info, user))
				return api_fail(GPUSHARE_E_CANCELLED,
						"the callback ended the listing at '%s'",
						info.name);
		}
	} while (page->more);
	return GPUSHARE_OK;
}

static int list(struct gpushare_session *session, const char *glob, gpushare_List which,
		int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	request ask = {.which_verb = gpushare_Request_list_tag, .verb.list = which};
	int status = API_NEED(session_check_glob(session, glob), visit);

	if (status)
		return status;
	ask.verb.list.limit = sizeof(((gpushare_ListReply *)0)->buffers) / sizeof(record);
	if (glob)
		memcpy(ask.verb.list.glob, glob, strlen(glob) + 1);
	return list_all(session, &ask, visit, user);
}

API_PUBLIC int gpushare_list(struct gpushare_session *session, const char *glob,
			     int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	API_CALL;
	return list(session, glob, (gpushare_List){.events = false}, visit, user);
}

API_PUBLIC int gpushare_list_deferred(struct gpushare_session *session, const char *glob,
				      int (*visit)(const struct gpushare_info *info, void *user),
				      void *user)
{
	API_CALL;
	return list(session, glob, (gpushare_List){.deferred = true}, visit, user);
}

API_PUBLIC int gpushare_list_events(struct gpushare_session *session, const char *glob,
				    int (*visit)(const struct gpushare_info *info, void *user),
				    void *user)
{
	API_CALL;
	return list(session, glob, (gpushare_List){.events = true}, visit, user);
}

static void counts_read(const gpushare_Count *from, pb_size_t count,
			struct gpushare_count out_counts[GPUSHARE_COUNTS_MAX])
{
	for (pb_size_t i = 0; i < count; i++) {
		memcpy(out_counts[i].what, from[i].what, sizeof(out_counts[i].what));
		out_counts[i].count = from[i].count;
		out_counts[i].bytes = from[i].bytes;
	}
}

static void stat_read(const gpushare_StatReply *from, struct gpushare_registry_info *to)
{
	*to = (struct gpushare_registry_info){
	    .names = from->names,
	    .attachments = from->attachments,
	    .connections = from->connections,
	    .waiters = from->waiters,
	    .requests = from->requests,
	    .deferred = from->deferred,
	    .started_unix_ns = from->started_unix_ns,
	    .deferred_bytes = from->deferred_bytes,
	    .kept_bytes = from->kept_bytes,
	    .kept_limit = from->kept_limit,
	    .descriptors = from->descriptors,
	    .hidden = from->hidden,
	    .pid = from->pid,
	    .lock_held_max_us = (uint32_t)(from->lock_held_max_ns / 1000),
	};
	memcpy(to->version, from->version, sizeof(to->version));
	counts_read(from->by_verb, from->by_verb_count, to->by_verb);
	counts_read(from->by_status, from->by_status_count, to->by_status);
	counts_read(from->by_backing, from->by_backing_count, to->by_backing);
	counts_read(from->by_limit, from->by_limit_count, to->by_limit);
	counts_read(from->by_drop, from->by_drop_count, to->by_drop);
	counts_read(from->by_audit, from->by_audit_count, to->by_audit);
}

API_PUBLIC int gpushare_stat_registry(struct gpushare_session *session,
				      struct gpushare_registry_info *out_info)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_stat_tag};
	_cleanup_free_ gpushare_StatReply *answer = NULL;
	int status = API_NEED(session_check(session), out_info);

	if (status)
		return status;
	answer = malloc(sizeof(*answer));
	if (!answer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory for the registry's counters");
	status = session_ask(session, &ask, BODY(stat, answer));
	if (!status)
		stat_read(answer, out_info);
	return status;
}
