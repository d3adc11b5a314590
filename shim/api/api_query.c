/* SPDX-License-Identifier: MIT */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"

/* True: an attacher can't reach other memory. cuMemCreate memory is mapped alone; cuMemAlloc may
 * place other allocations into the rest of a block. */
int query_isolated(const struct gpushare_info *info)
{
	return backing_is_fd(info->backing) || info->base_size % API_BLOCK == 0;
}

void query_info(const record *from, struct gpushare_info *to)
{
	*to = (struct gpushare_info){
	    .generation = from->generation,
	    .size = from->size,
	    .base_offset = from->base_offset,
	    .base_size = from->base_size,
	    .backing = (enum gpushare_backing)from->backing,
	    .owner_uid = from->owner_uid,
	    .owner_pid = from->owner_pid,
	    .owner_started = from->owner_started,
	    .attachers = from->attachers,
	    .created_unix_ns = from->created_unix_ns,
	    .flags = from->flags,
	    .mode = from->mode,
	    .owner_gid = from->owner_gid,
	    .ttl_s = from->ttl_s,
	    .ttl_left_s = from->ttl_left_s,
	    .owner_alive = !from->owner_gone,
	    .deferred = from->deferred,
	    .missing = from->missing,
	    .sequence = from->sequence,
	    .ordering = (enum gpushare_ordering)from->ordering,
	};
	memcpy(to->name, from->name, sizeof(to->name));
	memcpy(to->device_uuid, from->device_uuid, sizeof(to->device_uuid));
	memcpy(to->owner_command, from->owner_command, sizeof(to->owner_command));
	to->isolated = query_isolated(to);
	to->tag_count = tags_read(from, to->tags);
}

API_PUBLIC int gpushare_unlink(struct gpushare_session *session, const char *name)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_withdraw_tag};
	int status = session_check_name(session, name);

	if (status)
		return status;
	memcpy(ask.verb.withdraw.name, name, strlen(name) + 1);
	return session_ask(session, &ask, 0, NULL, 0);
}

/* Look the name up in the registry's index page, without a request. */
static int query_index(struct gpushare_session *session, const char *name, record *out_found,
		       bool *out_is_there)
{
	if (!session_look_client(session))
		return session_fail_client(session);
	*out_is_there = client_look_up(session->client, name, out_found);
	session_give_client(session);
	return GPUSHARE_OK;
}

static int query_look_up(struct gpushare_session *session, const char *name, record *out_found)
{
	request ask = {.which_verb = gpushare_Request_lookup_tag};
	gpushare_LookupReply answer;
	bool is_there = false;
	int status = query_index(session, name, out_found, &is_there);

	if (status || is_there)
		return status;
	memcpy(ask.verb.lookup.name, name, strlen(name) + 1);
	status = session_ask(session, &ask, gpushare_Reply_lookup_tag, &answer, sizeof(answer));
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
	int status = session_check_name(session, name);

	if (!status && !out_info)
		status = api_fail(GPUSHARE_E_INVALID, "out_info is NULL");
	if (status)
		return status;
	status = query_look_up(session, name, &found);
	if (!status)
		query_info(&found, out_info);
	return status;
}

API_PUBLIC int gpushare_state(struct gpushare_buffer *buffer, enum gpushare_state *out_state)
{
	API_CALL;
	record found;
	int status = session_check_buffer(buffer);

	if (!status && !out_state)
		status = api_fail(GPUSHARE_E_INVALID, "out_state is NULL");
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

API_TEXTS(gpushare_state_text, enum gpushare_state, GPUSHARE_STATES)

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
