/* SPDX-License-Identifier: MIT */
#include "api_session.h"

#include <string.h>

#include "cleanup.h"

/* Memory of cuMemCreate is mapped as it was made; cuMemAlloc hands out the rest of a block. */
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
	    .ttl_s = from->ttl_s,
	    .ttl_left_s = from->ttl_left_s,
	    .owner_alive = !from->owner_gone,
	};
	memcpy(to->name, from->name, sizeof(to->name));
	memcpy(to->device_uuid, from->device_uuid, sizeof(to->device_uuid));
	memcpy(to->owner_command, from->owner_command, sizeof(to->owner_command));
	to->isolated = query_isolated(to);
}

API_PUBLIC int gpushare_unlink(struct gpushare_session *session, const char *name)
{
	request ask = {.which_verb = gpushare_Request_withdraw_tag};
	int status = api_check_name(name);

	if (!status)
		status = session_check(session);
	if (status)
		return status;
	memcpy(ask.verb.withdraw.name, name, strlen(name) + 1);
	return session_ask(session, &ask, 0, NULL, 0);
}

API_PUBLIC int gpushare_stat(struct gpushare_session *session, const char *name,
			     struct gpushare_info *out_info)
{
	request ask = {.which_verb = gpushare_Request_lookup_tag};
	gpushare_LookupReply answer;
	int status = api_check_name(name);

	if (!status)
		status = session_check(session);
	if (!status && !out_info)
		status = api_fail(GPUSHARE_E_INVALID, "out_info is NULL");
	if (status)
		return status;
	memcpy(ask.verb.lookup.name, name, strlen(name) + 1);
	status = session_ask(session, &ask, gpushare_Reply_lookup_tag, &answer, sizeof(answer));
	if (!status)
		query_info(&answer.buffer, out_info);
	return status;
}

/* One page at a time; `after` must grow, or the listing would never end. */
static int query_page(struct gpushare_session *session, const char *glob, const char *after,
		      gpushare_ListReply *out_page)
{
	request ask = {.which_verb = gpushare_Request_list_tag};
	const char *last = after;
	int status;

	memcpy(ask.verb.list.glob, glob, strlen(glob) + 1);
	memcpy(ask.verb.list.after, after, strlen(after) + 1);
	status = session_ask(session, &ask, gpushare_Reply_list_tag, out_page, sizeof(*out_page));
	if (status)
		return status;
	for (pb_size_t i = 0; i < out_page->buffers_count; i++) {
		if (strcmp(out_page->buffers[i].name, last) <= 0)
			return api_fail(GPUSHARE_E_PROTOCOL, "the registry lists '%s' after '%s'",
					out_page->buffers[i].name, last);
		last = out_page->buffers[i].name;
	}
	if (out_page->more && !out_page->buffers_count)
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry says there is more, but lists nothing");
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_list(struct gpushare_session *session, const char *glob,
			     int (*visit)(const struct gpushare_info *info, void *user), void *user)
{
	_cleanup_free_ gpushare_ListReply *page = NULL;
	char after[GPUSHARE_NAME_MAX + 1] = "";
	int status = session_check(session);

	if (!status && !visit)
		status = api_fail(GPUSHARE_E_INVALID, "visit is NULL");
	if (!status && glob && strlen(glob) > GPUSHARE_NAME_MAX)
		status =
		    api_fail(GPUSHARE_E_INVALID, "the pattern is %zu bytes long; %d are the limit",
			     strlen(glob), GPUSHARE_NAME_MAX);
	if (status)
		return status;
	page = malloc(sizeof(*page));
	if (!page)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to list buffers");
	do {
		status = query_page(session, glob ? glob : "", after, page);
		if (status)
			return status;
		for (pb_size_t i = 0; i < page->buffers_count; i++) {
			struct gpushare_info info;

			query_info(&page->buffers[i], &info);
			memcpy(after, info.name, sizeof(after));
			if (visit(&info, user))
				return api_fail(GPUSHARE_E_CANCELLED,
						"the listing was ended by its caller at '%s'",
						info.name);
		}
	} while (page->more);
	return GPUSHARE_OK;
}

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
	if (!buffer || !out_info)
		return api_fail(GPUSHARE_E_INVALID, "%s is NULL", buffer ? "out_info" : "buffer");
	*out_info = buffer->info;
	return GPUSHARE_OK;
}
