/* SPDX-License-Identifier: MIT */
/*
 * One Request, Reply or Notice to bytes and back. A message is decoded in place (a Reply is too big for
 * somebody else's stack), so one that is refused leaves *out_message without meaning.
 */
#include <pb_common.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#include "protocol.h"

#define CODEC_DEPTH_MAX 5 /* Reply, SubscribeReply, Notice, Buffer, Tag */

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

static bool string_is_clean(pb_istream_t *stream)
{
	uint8_t byte;

	while (stream->bytes_left) {
		if (!pb_read(stream, &byte, 1) || !byte)
			return false;
	}
	return true;
}

/* nanopb keeps no length of a string: a NUL inside one is only seen here, on the wire. */
static bool strings_are_clean(pb_istream_t *stream, const pb_msgdesc_t *fields, int depth)
{
	pb_field_iter_t field;
	pb_wire_type_t type;
	uint32_t tag;
	bool eof;

	if (depth == CODEC_DEPTH_MAX)
		return false;
	while (pb_decode_tag(stream, &type, &tag, &eof)) {
		bool known = pb_field_iter_begin_const(&field, fields, NULL) &&
			     pb_field_iter_find(&field, tag);
		bool string = known && PB_LTYPE(field.type) == PB_LTYPE_STRING;
		bool message = known && PB_LTYPE_IS_SUBMSG(field.type);
		pb_istream_t inner;
		bool clean;

		if (type != PB_WT_STRING || !(string || message)) {
			if (!pb_skip_field(stream, type))
				return false;
			continue;
		}
		if (!pb_make_string_substream(stream, &inner))
			return false;
		clean = string ? string_is_clean(&inner)
			       : strings_are_clean(&inner, field.submsg_desc, depth + 1);
		if (!pb_close_string_substream(stream, &inner) || !clean)
			return false;
	}
	return eof;
}

static int decode(const uint8_t *from, size_t size, const pb_msgdesc_t *fields, void *message)
{
	pb_istream_t stream;

	if (size > GPUSHARE_MESSAGE_MAX)
		return GPUSHARE_E_PROTOCOL;
	stream = pb_istream_from_buffer(from, size);
	/* Most messages have no such byte anywhere. */
	if (size && memchr(from, 0, size) && !strings_are_clean(&stream, fields, 0))
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

/* NULL: this verb has none. */
static const char *name_of(const request *message)
{
	switch (message->which_verb) {
	case gpushare_Request_share_tag:
		return message->verb.share.buffer.name;
	case gpushare_Request_lookup_tag:
		return message->verb.lookup.name;
	case gpushare_Request_attach_tag:
		return message->verb.attach.name;
	case gpushare_Request_detach_tag:
		return message->verb.detach.name;
	case gpushare_Request_withdraw_tag:
		return message->verb.withdraw.name;
	case gpushare_Request_tag_tag:
		return message->verb.tag.name;
	case gpushare_Request_holders_tag:
		return message->verb.holders.name;
	case gpushare_Request_order_tag:
		return message->verb.order.name;
	case gpushare_Request_commit_tag:
		return message->verb.commit.name;
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

/* Only the first one is about no buffer. */
static bool notice_is_valid(const notice *told)
{
	return !told->kind || (told->has_buffer && name_is_valid(told->buffer.name));
}

static bool reply_names_are_valid(const reply *message)
{
	switch (message->which_body) {
	case gpushare_Reply_share_tag:
		return !message->body.share.has_buffer ||
		       name_is_valid(message->body.share.buffer.name);
	case gpushare_Reply_lookup_tag:
		return name_is_valid(message->body.lookup.buffer.name);
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

#define HEAD_MAX 8 /* a tag and a length */

/* Bytes that are written so far. */
struct writing {
	uint8_t *to;
	size_t room, size;
};

/* Before the `length` bytes that stand HEAD_MAX behind what is written. */
static bool put_head(struct writing *writing, uint32_t tag, size_t length)
{
	uint8_t *at = writing->to + writing->size;
	pb_ostream_t head = pb_ostream_from_buffer(at, HEAD_MAX);

	if (!pb_encode_tag(&head, PB_WT_STRING, tag) || !pb_encode_varint(&head, length))
		return false;
	memmove(at + head.bytes_written, at + HEAD_MAX, length);
	writing->size += head.bytes_written + length;
	return true;
}

/* nanopb encodes a message inside another one twice, to know its length, and what is in that three times: a page
 * of a list would take twice as long. */
static bool put_buffer(struct writing *writing, const record *buffer)
{
	pb_ostream_t stream;

	if (writing->room - writing->size < HEAD_MAX)
		return false;
	stream = pb_ostream_from_buffer(writing->to + writing->size + HEAD_MAX,
					writing->room - writing->size - HEAD_MAX);
	return pb_encode(&stream, gpushare_Buffer_fields, buffer) &&
	       put_head(writing, gpushare_ListReply_buffers_tag, stream.bytes_written);
}

/* Without its buffers, as nanopb does, then behind them; the reply ends with the list. */
static int encode_list(reply *message, uint8_t *to, size_t room, size_t *out_size)
{
	gpushare_ListReply *list = &message->body.list;
	pb_size_t count = list->buffers_count;
	struct writing all = {.to = to, .room = room}, inner;
	size_t size, rest;
	int status;

	list->buffers_count = 0;
	status = encode(gpushare_Reply_fields, message, to, room, &size);
	if (!status && !pb_get_encoded_size(&rest, gpushare_ListReply_fields, list))
		status = GPUSHARE_E_PROTOCOL;
	list->buffers_count = count;
	if (!status && !count)
		*out_size = size;
	if (status || !count)
		return status;
	all.size = size - rest - (rest < 0x80 ? 2 : 3); /* a tag and the length */
	if (room - all.size < HEAD_MAX + rest)
		return GPUSHARE_E_PROTOCOL;
	inner = (struct writing){
	    .to = to + all.size + HEAD_MAX, .room = room - all.size - HEAD_MAX, .size = rest};
	memmove(inner.to, to + size - rest, rest);
	for (pb_size_t i = 0; i < count; i++) {
		if (!put_buffer(&inner, &list->buffers[i]))
			return GPUSHARE_E_PROTOCOL;
	}
	if (!put_head(&all, gpushare_Reply_list_tag, inner.size))
		return GPUSHARE_E_PROTOCOL;
	*out_size = all.size;
	return GPUSHARE_OK;
}

int codec_encode_reply(reply *message, uint8_t *to, size_t room, size_t *out_size)
{
	if (message->which_body == gpushare_Reply_list_tag)
		return encode_list(message, to, room, out_size);
	return encode(gpushare_Reply_fields, message, to, room, out_size);
}

int codec_decode_reply(const uint8_t *from, size_t size, reply *out_message)
{
	int status = decode(from, size, gpushare_Reply_fields, out_message);

	if (status)
		return status;
	if (out_message->status > 0 || !reply_names_are_valid(out_message))
		return GPUSHARE_E_PROTOCOL;
	return GPUSHARE_OK;
}
