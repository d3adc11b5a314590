/* SPDX-License-Identifier: MIT */
/* gpushare_share_parts(): names for parts of a buffer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_session.h"

struct parts {
	struct gpushare_buffer *whole;
	const struct gpushare_part *parts;
	/* The new buffers. Until the registry grants one, its generation is 0; from then on it is
	 * on the session's list. */
	struct gpushare_buffer **made;
	gpushare_ShareReply answer;
};

static bool make(void *user, size_t index, request *out_request)
{
	const struct parts *all = user;
	const struct gpushare_part *part = &all->parts[index];
	gpushare_Share *share = &out_request->verb.share;

	*out_request = (request){.which_verb = gpushare_Request_share_tag};
	share->has_buffer = true;
	strcpy(share->buffer.name, part->name);
	share->buffer.base_offset = part->offset;
	share->buffer.size = part->size;
	tags_write(part->name, part->tags, part->tag_count, share->buffer.tags,
		   &share->buffer.tags_count);
	pthread_mutex_lock(&all->whole->session->lock);
	share->part_of = all->whole->info.generation;
	all->whole->has_parts = true;
	pthread_mutex_unlock(&all->whole->session->lock);
	return true;
}

static int take(void *user, size_t index, const struct session_answer *answer)
{
	struct parts *all = user;
	struct gpushare_buffer *part = all->made[index];

	fds_close(&answer->fd, answer->fd >= 0);
	if (answer->status)
		return answer->status;
	if (!all->answer.generation) /* end_made() takes 0 for a part that was not granted */
		return api_fail(GPUSHARE_E_PROTOCOL,
				"'%s' can't be shared: the registry's answer has no generation",
				part->info.name);
	part->info.generation = all->answer.generation;
	session_add(all->whole->session, part, answer->readings);
	return GPUSHARE_OK;
}

static int check_part(const struct gpushare_buffer *whole, const struct gpushare_part *part)
{
	gpushare_Tag tags[GPUSHARE_TAGS_MAX];
	pb_size_t count;
	int status = api_check_name(part->name);

	if (status)
		return status;
	if (!part->size || !span_fits(part->offset, part->size, whole->info.size))
		return api_fail(part->size ? GPUSHARE_E_RANGE : GPUSHARE_E_INVALID,
				"part '%s' (%zu bytes from offset %zu) is empty, or not within "
				"'%s', which has %zu bytes",
				part->name, part->size, part->offset, whole->info.name,
				(size_t)whole->info.size);
	if (part->tag_count && !part->tags)
		return api_fail(GPUSHARE_E_INVALID, "the tags of '%s' are NULL", part->name);
	return tags_write(part->name, part->tags, part->tag_count, tags, &count);
}

/* Copy from the whole what the registry copies too: a resync needs it to share the part again. */
static struct gpushare_buffer *new_part(const struct parts *all, const struct gpushare_part *part)
{
	struct gpushare_buffer *whole = all->whole;
	struct gpushare_buffer *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->session = whole->session;
	made->kind = BUFFER_SHARED;
	made->count = 1;
	made->whole = whole;
	made->pointer = whole->pointer + part->offset;
	made->device = whole->device;
	made->context = whole->context;
	made->rights = whole->rights;
	made->info = whole->info;
	made->info.generation = 0;
	memset(made->info.name, 0, sizeof(made->info.name));
	strcpy(made->info.name, part->name);
	made->info.size = part->size;
	made->info.base_offset += part->offset;
	return made;
}

static int check(const struct gpushare_buffer *buffer, const struct gpushare_part *parts,
		 size_t count)
{
	int status = session_check_buffer(buffer);

	if (!status && count && !parts)
		status = api_fail(GPUSHARE_E_INVALID, "parts is NULL");
	if (!status && buffer_is_attached(buffer))
		status =
		    api_fail(GPUSHARE_E_INVALID, "'%s' is attached here; its owner names its parts",
			     buffer->info.name);
	if (!status && buffer->info.backing != GPUSHARE_BACKING_VMM)
		status =
		    api_fail(GPUSHARE_E_NOT_SUPPORTED,
			     "'%s' is not vmm memory, and only that can have parts; allocate it "
			     "with GPUSHARE_FLAG_VMM, or name each part by gpushare_share()",
			     buffer->info.name);
	for (size_t i = 0; !status && i < count; i++)
		status = check_part(buffer, &parts[i]);
	return status;
}

/* Withdraw a part that is off the session's list. `unused`: the registry removes it even if it has
 * the KEEP flag. */
static void end_part(struct gpushare_buffer *part, bool unused)
{
	request tell = {.which_verb = gpushare_Request_withdraw_tag};

	memcpy(tell.verb.withdraw.name, part->info.name, sizeof(part->info.name));
	tell.verb.withdraw.generation = part->info.generation;
	tell.verb.withdraw.unused = unused;
	session_tell(part->session, &tell);
	buffer_free(part);
}

void parts_end(struct gpushare_buffer *whole)
{
	struct gpushare_session *session = whole->session;
	struct gpushare_buffer *part, *next, *ended = NULL;

	pthread_mutex_lock(&session->lock);
	DL_FOREACH_SAFE (whole->has_parts ? session->buffers : NULL, part, next) {
		if (part->whole != whole)
			continue;
		DL_DELETE(session->buffers, part);
		DL_PREPEND(ended, part);
	}
	pthread_mutex_unlock(&session->lock);
	DL_FOREACH_SAFE (ended, part, next) {
		end_part(part, false);
	}
}

/* Undo a call that failed. */
static void end_made(struct parts *all, size_t count)
{
	struct gpushare_session *session = all->whole->session;
	struct gpushare_buffer *part;

	for (size_t i = 0; i < count && (part = all->made[i]); i++) {
		if (!part->info.generation) {
			buffer_free(part);
			continue;
		}
		pthread_mutex_lock(&session->lock);
		DL_DELETE(session->buffers, part);
		pthread_mutex_unlock(&session->lock);
		end_part(part, true);
	}
}

static int share_all(struct parts *all, size_t count)
{
	const struct session_many many = {
	    .body = BODY(share, &all->answer),
	    .make = make,
	    .take = take,
	    .user = all,
	};
	int status = GPUSHARE_OK;

	for (size_t i = 0; !status && i < count; i++) {
		all->made[i] = new_part(all, &all->parts[i]);
		if (!all->made[i])
			status =
			    api_fail(GPUSHARE_E_NO_MEMORY, "no memory to share %zu parts", count);
	}
	if (!status)
		status = session_ask_many(all->whole->session, &many, count);
	if (status) {
		API_KEEP_SENTENCE;

		end_made(all, count);
	}
	return status;
}

API_PUBLIC int gpushare_share_parts(struct gpushare_buffer *buffer,
				    const struct gpushare_part *parts, size_t count)
{
	API_CALL;
	struct parts all = {.whole = buffer, .parts = parts};
	int status = check(buffer, parts, count);

	if (status || !count)
		return status;
	all.made = calloc(count, sizeof(*all.made));
	if (!all.made)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to share %zu parts", count);
	status = share_all(&all, count);
	free(all.made);
	return status;
}
