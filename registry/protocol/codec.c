/* SPDX-License-Identifier: MIT */
/* Encodes and decodes requests and replies. Decodes directly into *out_message, because a Reply is
 * too big for the stack of a program's thread. So if decoding fails, *out_message is undefined. A
 * string ends at its first NUL byte. */
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

/* The name that the request is about; NULL: requests with its verb have none. */
static const char *name_of(const request *message)
{
	switch (message->which_verb) {
	case gpushare_Request_share_tag:
		return message->verb.share.buffer.name;
#define X(of) \
	case gpushare_Request_##of##_tag: \
		return message->verb.of.name;
		NAMED_VERBS(X)
#undef X
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

/*
 * For a page of a list, nanopb takes several times as long as the functions below: it looks each
 * field up in a table, and encodes a submessage once for its length and once more for its bytes.
 * These functions are made from nanopb's lists of fields. They write a submessage's length last, as
 * a varint padded to the size of the largest possible length.
 */
static uint8_t *put_varint(uint8_t *to, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*to++ = (uint8_t)(value | 0x80);
	*to++ = (uint8_t)value;
	return to;
}

static uint8_t *put_number(uint8_t *to, uint32_t tag, uint64_t value)
{
	return value ? put_varint(put_varint(to, tag << 3 | PB_WT_VARINT), value) : to;
}

static uint8_t *put_bytes(uint8_t *to, uint32_t tag, const void *from, size_t size)
{
	if (!size)
		return to;
	to = put_varint(put_varint(to, tag << 3 | PB_WT_STRING), size);
	memcpy(to, from, size);
	return to + size;
}

/* Write the head (tag and length) of the submessage that ends at `end`. Returns `end`. */
static uint8_t *put_head(uint8_t *head, size_t head_size, uint32_t tag, uint8_t *end)
{
	size_t size = (size_t)(end - head) - head_size;

	*head = (uint8_t)(tag << 3 | PB_WT_STRING);
	for (size_t i = 1; i < head_size; i++, size >>= 7)
		head[i] = (uint8_t)(size | (i + 1 < head_size ? 0x80 : 0));
	return end;
}

#define PUT(a, b, rule, type, field, tag) PUT_##rule(type, field, tag)
#define PUT_SINGULAR(type, field, tag) to = PUT_##type(field, tag);
#define PUT_OPTIONAL(type, field, tag) \
	if (from->has_##field) \
		to = put_##field(to, tag, &from->field);
#define PUT_REPEATED(type, field, tag) \
	for (pb_size_t i = 0; i < from->field##_count; i++) \
		to = put_##field(to, tag, &from->field[i]);
#define PUT_UINT64(field, tag) put_number(to, tag, (uint64_t)from->field)
#define PUT_UINT32 PUT_UINT64
#define PUT_INT32 PUT_UINT64
#define PUT_BOOL PUT_UINT64
#define PUT_STRING(field, tag) put_bytes(to, tag, from->field, strlen(from->field))
#define PUT_FIXED_LENGTH_BYTES(field, tag) put_bytes(to, tag, from->field, sizeof(from->field))

/* Defines put_NAME(), which encodes a submessage of TYPE. It needs room for `head_size` +
 * gpushare_TYPE_size bytes. */
#define FUNCTION(name, type, head_size) \
	_Static_assert(gpushare_##type##_size < 1 << 7 * (head_size - 1), "its length fits"); \
	static uint8_t *put_##name(uint8_t *head, uint32_t tag, const gpushare_##type *from) \
	{ \
		uint8_t *to = head + head_size; \
\
		gpushare_##type##_FIELDLIST(PUT, _) return put_head(head, head_size, tag, to); \
	}
#define BODY_HEAD 4

_Static_assert(gpushare_Buffer_tags_tag < 16 && gpushare_Reply_list_tag < 16 &&
		   gpushare_Reply_lookup_tag < 16,
	       "put_head() writes the field number and the type as one byte");

FUNCTION(tags, Tag, 3)
FUNCTION(buffers, Buffer, 3)
#define put_buffer put_buffers
FUNCTION(list, ListReply, BODY_HEAD)
FUNCTION(lookup, LookupReply, BODY_HEAD)

int codec_encode_reply(reply *message, uint8_t *to, size_t room, size_t *out_size)
{
	pb_size_t which = message->which_body;
	bool is_list = which == gpushare_Reply_list_tag;
	size_t most = is_list ? gpushare_ListReply_size : gpushare_LookupReply_size, size;
	int status;

	if (!is_list && which != gpushare_Reply_lookup_tag)
		return encode(gpushare_Reply_fields, message, to, room, out_size);
	message->which_body = 0;
	status = encode(gpushare_Reply_fields, message, to, room, &size);
	message->which_body = which;
	if (status || room - size < BODY_HEAD + most)
		return GPUSHARE_E_PROTOCOL;
	*out_size = (size_t)((is_list ? put_list(to + size, which, &message->body.list)
				      : put_lookup(to + size, which, &message->body.lookup)) -
			     to);
	return GPUSHARE_OK;
}

#define X(field) \
	_Static_assert(sizeof(((record *)0)->field) == sizeof(((struct gpushare_info *)0)->field), \
		       "registry.options");
INFO_ARRAYS(X)
X(tags[0])
#undef X

void codec_read_info(const record *from, struct gpushare_info *out)
{
	*out = (struct gpushare_info){
	    .owner_alive = !from->owner_gone,
	    .deferred = from->deferred,
	    .isolated = backing_is_isolated(from->backing, from->base_size),
	    .tag_count = from->tags_count,
	};
#define X(field) out->field = from->field;
	INFO_NUMBERS(X)
#undef X
#define X(field) memcpy(out->field, from->field, sizeof(out->field));
	INFO_ARRAYS(X)
#undef X
	memcpy(out->tags, from->tags, from->tags_count * sizeof(*out->tags));
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

	return status || out_message->status <= 0 ? status : GPUSHARE_E_PROTOCOL;
}
