/* SPDX-License-Identifier: MIT */
/* Tags of buffers, and the list of processes that have a buffer attached. */
#include "api_session.h"

#include <string.h>

#include "base/cleanup.h"

uint32_t tags_read(const record *from, struct gpushare_tag out_tags[GPUSHARE_TAGS_MAX])
{
	memset(out_tags, 0, GPUSHARE_TAGS_MAX * sizeof(*out_tags));
	for (pb_size_t i = 0; i < from->tags_count; i++) {
		memcpy(out_tags[i].key, from->tags[i].key, sizeof(out_tags[i].key));
		memcpy(out_tags[i].value, from->tags[i].value, sizeof(out_tags[i].value));
	}
	return from->tags_count;
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
	return session_ask(session, &ask, 0, NULL, 0);
}

API_PUBLIC int gpushare_tags(struct gpushare_buffer *buffer, struct gpushare_tag *out_tags,
			     size_t *out_count)
{
	API_CALL;
	request ask = {.which_verb = gpushare_Request_lookup_tag};
	gpushare_LookupReply answer;
	int status = session_check_buffer(buffer);

	if (!status && (!out_tags || !out_count))
		status =
		    api_fail(GPUSHARE_E_INVALID, "%s is NULL", out_tags ? "out_count" : "out_tags");
	if (status)
		return status;
	memcpy(ask.verb.lookup.name, buffer->info.name, sizeof(buffer->info.name));
	status =
	    session_ask(buffer->session, &ask, gpushare_Reply_lookup_tag, &answer, sizeof(answer));
	if (status)
		return status;
	if (answer.buffer.generation != buffer->info.generation)
		return api_fail(GPUSHARE_E_NOT_FOUND,
				"'%s' is another buffer's name now; this buffer's tags are gone",
				buffer->info.name);
	*out_count = tags_read(&answer.buffer, out_tags);
	return GPUSHARE_OK;
}

static void holder_read(const gpushare_Holder *from, struct gpushare_holder *to)
{
	*to = (struct gpushare_holder){
	    .pid = from->pid,
	    .uid = from->uid,
	    .started = from->started,
	    .count = from->count,
	    .own = from->own,
	};
	memcpy(to->command, from->command, sizeof(to->command));
}

static int holders_page(const gpushare_HoldersReply *page, const char *name, uint32_t *after,
			int (*visit)(const struct gpushare_holder *holder, void *user), void *user)
{
	for (pb_size_t i = 0; i < page->holders_count; i++) {
		struct gpushare_holder holder;

		if (page->holders[i].connection <= *after)
			return api_fail(
			    GPUSHARE_E_PROTOCOL,
			    "the registry's list of the processes that have '%s' is out of order",
			    name);
		*after = page->holders[i].connection;
		holder_read(&page->holders[i], &holder);
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
	int status = session_check_name(session, name);

	if (!status && !visit)
		status = api_fail(GPUSHARE_E_INVALID, "visit is NULL");
	page = status ? NULL : malloc(sizeof(*page));
	if (!status && !page)
		status = api_fail(GPUSHARE_E_NO_MEMORY,
				  "no memory to list the processes that have '%s'", name);
	if (status)
		return status;
	memcpy(ask.verb.holders.name, name, strlen(name) + 1);
	ask.verb.holders.generation = generation;
	do {
		status =
		    session_ask(session, &ask, gpushare_Reply_holders_tag, page, sizeof(*page));
		if (!status)
			status = holders_page(page, name, &ask.verb.holders.after, visit, user);
	} while (!status && page->more);
	return status;
}
