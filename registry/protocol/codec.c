/* SPDX-License-Identifier: MIT */
/*
 * Encodes and decodes requests and replies. A message is decoded in place, because a Reply is too
 * big for the stack of a program's thread. If decoding fails, *out_message is undefined. A string
 * ends at its first NUL byte.
 */
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#include "protocol.h"

_Static_assert(gpushare_Request_size <= GPUSHARE_MESSAGE_MAX, "a Request fits a message");
_Static_assert(gpushare_Reply_size <= GPUSHARE_MESSAGE_MAX, "a Reply fits a message");
_Static_assert(gpushare_Notice_size <= GPUSHARE_MESSAGE_MAX, "a Notice fits a message");
_Static_assert(sizeof(((gpushare_Share *)0)->handle) == GPUSHARE_HANDLE_SIZE, "registry.options");
_Static_assert(sizeof(((gpushare_Hello *)0)->resume) == GPUSHARE_SESSION_KEY_SIZE,
	       "registry.options");
_Static_assert(sizeof(((gpushare_HelloReply *)0)->session) == GPUSHARE_SESSION_KEY_SIZE,
	       "registry.options");
_Static_assert(sizeof(((record *)0)->device_uuid) == GPUSHARE_UUID_SIZE, "registry.options");
_Static_assert(sizeof(((record *)0)->owner_command) == GPUSHARE_COMMAND_MAX + 1,
	       "registry.options");
_Static_assert(sizeof(((gpushare_Tag *)0)->key) == GPUSHARE_TAG_KEY_MAX + 1, "registry.options");
_Static_assert(sizeof(((gpushare_Tag *)0)->value) == GPUSHARE_TAG_VALUE_MAX + 1,
	       "registry.options");
_Static_assert(sizeof(((record *)0)->tags) == GPUSHARE_TAGS_MAX * sizeof(gpushare_Tag),
	       "registry.options");

static int decode(const uint8_t *from, size_t size, const pb_msgdesc_t *fields, void *message)
{
	pb_istream_t stream;

	if (size > GPUSHARE_MESSAGE_MAX)
		return GPUSHARE_E_PROTOCOL;
	stream = pb_istream_from_buffer(from, size);
	return pb_decode(&stream, fields, message) ? GPUSHARE_OK : GPUSHARE_E_PROTOCOL;
}

static int encode(const pb_msgdesc_t *fields, const void *message, uint8_t *to, size_t room,
		  size_t *out_size)
{
	pb_ostream_t stream = pb_ostream_from_buffer(to, room);

	if (!pb_encode(&stream, fields, message))
		return GPUSHARE_E_PROTOCOL;
	*out_size = stream.bytes_written;
	return GPUSHARE_OK;
}

const char *request_verb(pb_size_t which)
{
	switch (which) {
#define X(verb) \
	case gpushare_Request_##verb##_tag: \
		return #verb;
		REQUEST_VERBS(X)
#undef X
	}
	return NULL;
}

/* The request's name; NULL: its verb has none. */
static const char *name_of(const request *message)
{
	switch (message->which_verb) {
	case gpushare_Request_share_tag:
		return message->verb.share.buffer.name;
#define NAMED(of) \
	case gpushare_Request_##of##_tag: \
		return message->verb.of.name;
		NAMED(lookup)
		NAMED(attach)
		NAMED(detach)
		NAMED(withdraw)
		NAMED(tag)
		NAMED(holders)
		NAMED(order)
		NAMED(commit)
#undef NAMED
	}
	return NULL;
}

const char *request_name(const request *message)
{
	const char *name = name_of(message);

	return name ? name : "";
}

static bool holds_are_valid(const gpushare_Hold *holds, pb_size_t count)
{
	for (pb_size_t i = 0; i < count; i++) {
		if (!name_is_valid(holds[i].name))
			return false;
	}
	return true;
}

static bool request_names_are_valid(const request *message)
{
	const gpushare_Resync *resync = &message->verb.resync;
	const char *name = name_of(message);

	if (message->which_verb == gpushare_Request_list_tag && *message->verb.list.after)
		name = message->verb.list.after;
	if (message->which_verb == gpushare_Request_resync_tag)
		return holds_are_valid(resync->shared, resync->shared_count) &&
		       holds_are_valid(resync->attached, resync->attached_count);
	return !name || name_is_valid(name);
}

/* Only the first notice of a subscription has no buffer. */
static bool notice_is_valid(const notice *told)
{
	return !told->kind || (told->has_buffer && name_is_valid(told->buffer.name));
}

/* Clients print and compare names, so a broken registry must not get an invalid one through. */
static bool reply_names_are_valid(const reply *message)
{
	switch (message->which_body) {
	case gpushare_Reply_share_tag:
		return !message->body.share.has_buffer ||
		       name_is_valid(message->body.share.buffer.name);
	case gpushare_Reply_lookup_tag:
		return !message->body.lookup.has_buffer ||
		       name_is_valid(message->body.lookup.buffer.name);
	case gpushare_Reply_attach_tag:
		return message->body.attach.at_fds ||
		       name_is_valid(message->body.attach.buffer.name);
	case gpushare_Reply_list_tag:
		for (pb_size_t i = 0; i < message->body.list.buffers_count; i++) {
			if (!name_is_valid(message->body.list.buffers[i].name))
				return false;
		}
		return !*message->body.list.after || name_is_valid(message->body.list.after);
	case gpushare_Reply_subscribe_tag:
		for (pb_size_t i = 0; i < message->body.subscribe.notices_count; i++) {
			if (!notice_is_valid(&message->body.subscribe.notices[i]))
				return false;
		}
	}
	return true;
}

int codec_encode_request(const request *message, uint8_t *to, size_t room, size_t *out_size)
{
	return encode(gpushare_Request_fields, message, to, room, out_size);
}

int codec_decode_request(const uint8_t *from, size_t size, request *out_message)
{
	int status = decode(from, size, gpushare_Request_fields, out_message);

	if (status)
		return status;
	if (!out_message->which_verb)
		return GPUSHARE_E_PROTOCOL;
	return request_names_are_valid(out_message) ? GPUSHARE_OK : GPUSHARE_E_NAME;
}

#define HEAD_MAX 8   /* bytes of a tag and a length */
#define BUFFER_TAG 1 /* field of the buffers in a ListReply and a LookupReply */

_Static_assert(gpushare_ListReply_buffers_tag == BUFFER_TAG, "the same in all");
_Static_assert(gpushare_LookupReply_buffer_tag == BUFFER_TAG, "the same in all");

struct written {
	uint8_t *to;
	size_t room, size;
};

/* Appends a submessage with these buffers. Its bytes are encoded HEAD_MAX behind the end, and then
 * moved up to its head, which needs their length. */
static bool put(struct written *all, uint32_t tag, const pb_msgdesc_t *fields, const void *message,
		const record *buffers, pb_size_t count)
{
	uint8_t *at = all->to + all->size;
	pb_ostream_t head = pb_ostream_from_buffer(at, HEAD_MAX);
	struct written inner = {.to = at + HEAD_MAX};

	if (all->room - all->size < HEAD_MAX)
		return false;
	inner.room = all->room - all->size - HEAD_MAX;
	if (encode(fields, message, inner.to, inner.room, &inner.size))
		return false;
	for (pb_size_t i = 0; i < count; i++) {
		if (!put(&inner, BUFFER_TAG, gpushare_Buffer_fields, &buffers[i], NULL, 0))
			return false;
	}
	if (!pb_encode_tag(&head, PB_WT_STRING, tag) || !pb_encode_varint(&head, inner.size))
		return false;
	memmove(at + head.bytes_written, inner.to, inner.size);
	all->size += head.bytes_written + inner.size;
	return true;
}

/* Sets how many buffers a ListReply or LookupReply has. Returns how many it had. */
static pb_size_t set_count(reply *message, pb_size_t count)
{
	gpushare_ListReply *list = &message->body.list;
	bool is_list = message->which_body == gpushare_Reply_list_tag;
	pb_size_t had = is_list ? list->buffers_count : message->body.lookup.has_buffer;

	if (is_list)
		list->buffers_count = count;
	else
		message->body.lookup.has_buffer = count;
	return had;
}

/* nanopb encodes a submessage twice, to know its length, and a submessage of that three times. For
 * a page of a list that would take twice as long as this. */
int codec_encode_reply(reply *message, uint8_t *to, size_t room, size_t *out_size)
{
	struct written all = {.to = to, .room = room};
	pb_size_t count, which = message->which_body;
	bool is_list = which == gpushare_Reply_list_tag, fits;

	if (!is_list && which != gpushare_Reply_lookup_tag)
		return encode(gpushare_Reply_fields, message, to, room, out_size);
	message->which_body = 0;
	fits = !encode(gpushare_Reply_fields, message, to, room, &all.size);
	message->which_body = which;
	count = set_count(message, 0);
	fits = fits &&
	       put(&all, which, is_list ? gpushare_ListReply_fields : gpushare_LookupReply_fields,
		   &message->body,
		   is_list ? message->body.list.buffers : &message->body.lookup.buffer, count);
	set_count(message, count);
	if (!fits)
		return GPUSHARE_E_PROTOCOL;
	*out_size = all.size;
	return GPUSHARE_OK;
}

bool codec_page_ends(const uint8_t *from, size_t size, gpushare_PageEnd *out_end)
{
	gpushare_PageReply page;

	if (decode(from, size, gpushare_PageReply_fields, &page) || !page.has_list)
		return false;
	*out_end = page.list;
	return true;
}

int codec_decode_reply(const uint8_t *from, size_t size, reply *out_message)
{
	int status = decode(from, size, gpushare_Reply_fields, out_message);

	if (status)
		return status;
	return out_message->status > 0 || !reply_names_are_valid(out_message) ? GPUSHARE_E_PROTOCOL
									      : GPUSHARE_OK;
}
