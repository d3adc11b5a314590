/* SPDX-License-Identifier: MIT */
/* The codec decodes what it encoded and refuses messages that break a bound, for every message
 * in the schema. */
#include "unit.h"

#include <pb_common.h>

#include "protocol.h"

static uint8_t wire[GPUSHARE_MESSAGE_MAX], wire_again[GPUSHARE_MESSAGE_MAX];
static request asked, asked_again;
static reply answered, answered_again;

enum kind { REQUEST, REPLY };
static const struct {
	const pb_msgdesc_t *fields;
	void *message, *again;
	size_t size;
} kinds[] = {
    {gpushare_Request_fields, &asked, &asked_again, sizeof(asked)},
    {gpushare_Reply_fields, &answered, &answered_again, sizeof(answered)},
};

/* Which of the strings that can hold a name fill() makes invalid; -1: none. Counts down. */
static int bad_name;

static void fill(const pb_msgdesc_t *fields, void *message);

static void fill_value(const pb_field_iter_t *field, void *value)
{
	switch (PB_LTYPE(field->type)) {
	case PB_LTYPE_BOOL:
		*(bool *)value = true;
		break;
	case PB_LTYPE_STRING:
		memset(value, 'n', field->data_size - 1u);
		if (field->data_size == GPUSHARE_NAME_MAX + 1 && !bad_name--)
			strcpy(value, "a b");
		break;
	case PB_LTYPE_SUBMESSAGE:
		fill(field->submsg_desc, value);
		break;
	default:
		memset(value, 0xff, field->data_size);
	}
}

static void fill_field(const pb_field_iter_t *field)
{
	size_t count = 1;

	if (PB_HTYPE(field->type) == PB_HTYPE_REPEATED)
		*(pb_size_t *)field->pSize = (pb_size_t)(count = field->array_size);
	else if (PB_HTYPE(field->type) == PB_HTYPE_OPTIONAL && field->pSize)
		*(bool *)field->pSize = true;
	for (size_t i = 0; i < count; i++)
		fill_value(field, (char *)field->pData + i * field->data_size);
}

/* Set each field to its bound, except members of a oneof. */
static void fill(const pb_msgdesc_t *fields, void *message)
{
	pb_field_iter_t field;

	if (!pb_field_iter_begin(&field, fields, message))
		return;
	do {
		if (PB_HTYPE(field.type) != PB_HTYPE_ONEOF)
			fill_field(&field);
	} while (pb_field_iter_next(&field));
}

/* Fill the verb or body `tag`. Returns false if the schema has none. */
static bool fill_one(enum kind kind, uint32_t tag, int bad)
{
	pb_field_iter_t field;

	memset(kinds[kind].message, 0, kinds[kind].size);
	memset(kinds[kind].again, 0, kinds[kind].size);
	if (!pb_field_iter_begin(&field, kinds[kind].fields, kinds[kind].message) ||
	    !pb_field_iter_find(&field, tag) || PB_HTYPE(field.type) != PB_HTYPE_ONEOF)
		return false;
	bad_name = bad;
	*(pb_size_t *)field.pSize = (pb_size_t)tag;
	fill(field.submsg_desc, field.pData);
	if (kind == REPLY && tag == gpushare_Reply_attach_tag)
		answered.body.attach.at_fds = false; /* otherwise it has no buffer */
	return true;
}

#define TAGS 64
#define EACH(kind, tag, bad) \
	for (uint32_t tag = 1; tag < TAGS; tag++) \
		if (fill_one(kind, tag, bad))

static int encode_into(enum kind kind, void *message, uint8_t *to, size_t room, size_t *out_size)
{
	return kind == REQUEST ? codec_encode_request(message, to, room, out_size)
			       : codec_encode_reply(message, to, room, out_size);
}

static size_t encode(enum kind kind, void *message, uint8_t *to)
{
	size_t size;

	assert_int_equal(encode_into(kind, message, to, GPUSHARE_MESSAGE_MAX, &size), GPUSHARE_OK);
	assert_in_range(size, 0, kind == REPLY ? gpushare_Reply_size : GPUSHARE_MESSAGE_MAX);
	return size;
}

/* Decode from memory of exactly that size, so that sanitizers see a read past its end. */
static int decode(enum kind kind, const uint8_t *bytes, size_t size)
{
	uint8_t *exact = malloc(size + !size);
	int status;

	memcpy(exact, bytes, size);
	status = kind == REQUEST ? codec_decode_request(exact, size, &asked_again)
				 : codec_decode_reply(exact, size, &answered_again);
	free(exact);
	return status;
}

/* Returns how many verbs or bodies there are. */
static unsigned int round_trips(enum kind kind)
{
	unsigned int count = 0;

	EACH(kind, tag, -1)
	{
		size_t size = encode(kind, kinds[kind].message, wire);

		assert_int_equal(decode(kind, wire, size), GPUSHARE_OK);
		assert_memory_equal(kinds[kind].again, kinds[kind].message, kinds[kind].size);
		assert_int_equal(encode(kind, kinds[kind].again, wire_again), size);
		assert_memory_equal(wire_again, wire, size);
		assert_true(kind == REPLY || request_verb(tag));
		count++;
	}
	return count;
}

static void messages_round_trip(void **state)
{
	assert_in_range(round_trips(REQUEST), 15, TAGS);
	assert_in_range(round_trips(REPLY), 11, TAGS);
	fill_one(REPLY, 0, -1);
	fill(gpushare_Reply_fields, &answered); /* status and message */
	assert_int_equal(decode(REPLY, wire, encode(REPLY, &answered, wire)), GPUSHARE_OK);
	assert_int_equal(answered_again.status, -1);
	assert_string_equal(answered_again.message, answered.message);
}

/* Of a reply, which may be long, some hundred lengths are enough. */
static void no_room_is_refused(void **state)
{
	size_t untouched = 99;

	for (enum kind kind = REQUEST; kind <= REPLY; kind++) {
		EACH(kind, tag, -1)
		{
			size_t size = encode(kind, kinds[kind].message, wire);
			size_t step = kind == REPLY ? 1 + size / 512 : 1;

			for (size_t room = 0; room < size; room += step)
				assert_int_equal(
				    encode_into(kind, kinds[kind].message, wire, room, &untouched),
				    GPUSHARE_E_PROTOCOL);
		}
	}
	assert_int_equal(untouched, 99);
}

static void cut_messages_are_refused(void **state)
{
	for (enum kind kind = REQUEST; kind <= REPLY; kind++) {
		EACH(kind, tag, -1)
		{
			size_t size = encode(kind, kinds[kind].message, wire);
			size_t step = kind == REPLY ? 1 + size / 512 : 1;

			/* an empty reply means OK */
			for (size_t cut = kind == REPLY; cut < size; cut += step)
				assert_int_equal(decode(kind, wire, cut), GPUSHARE_E_PROTOCOL);
		}
	}
}

/* A pattern is not checked as a name. */
static void every_name_is_checked(void **state)
{
	unsigned int checked = 0, passed = 0;

	for (int nth = 0; nth < 50; nth++) {
		EACH(REQUEST, tag, nth)
		{
			int status;

			if (bad_name >= 0) /* the message has fewer names */
				continue;
			status = decode(REQUEST, wire, encode(REQUEST, &asked, wire));
			assert_true(status == GPUSHARE_E_NAME || status == GPUSHARE_OK);
			checked += status == GPUSHARE_E_NAME;
			passed += status == GPUSHARE_OK;
		}
	}
	assert_int_equal(passed, 1);
	assert_in_range(checked, 8 + 2 * 8 + 1, 100);
}

/* Write a field: tag, length, bytes. Callers wrap it once more as a verb. */
static size_t put_field(uint8_t *to, int tag, const void *bytes, size_t length)
{
	size_t at = 0;

	if (tag > 15)
		to[at++] = (uint8_t)((tag << 3 | 2) | 0x80);
	to[at++] = (uint8_t)(tag > 15 ? tag >> 4 : tag << 3 | 2);
	for (size_t rest = length;; rest >>= 7) {
		to[at++] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
		if (rest <= 0x7f)
			break;
	}
	memcpy(to + at, bytes, length);
	return at + length;
}

static int decode_lookup_of(const char *name, size_t length)
{
	static uint8_t field[4096], message[4200];
	size_t size = put_field(field, gpushare_Lookup_name_tag, name, length);

	size = put_field(message, gpushare_Request_lookup_tag, field, size);
	return codec_decode_request(message, size, &asked);
}

static void a_string_ends_at_a_nul(void **state)
{
	assert_int_equal(decode_lookup_of("a b", 3), GPUSHARE_E_NAME);
	assert_int_equal(decode_lookup_of("a\0\n", 3), GPUSHARE_OK);
	assert_string_equal(asked.verb.lookup.name, "a");
	assert_int_equal(decode_lookup_of("\0a", 2), GPUSHARE_E_NAME);
}

static void lengths_are_fixed(void **state)
{
	uint8_t handle[GPUSHARE_HANDLE_SIZE + 1] = {1}, share[128], message[160];

	for (size_t length = 1; length <= sizeof(handle); length++) {
		size_t size = put_field(share, gpushare_Share_handle_tag, handle, length);
		int want = length == GPUSHARE_HANDLE_SIZE ? GPUSHARE_E_NAME : GPUSHARE_E_PROTOCOL;

		size = put_field(message, gpushare_Request_share_tag, share, size);
		assert_int_equal(codec_decode_request(message, size, &asked), want);
	}
}

static void too_many_tags_are_refused(void **state)
{
	uint8_t tag[8], buffer[128], share[160], message[192];
	size_t one = put_field(tag, gpushare_Tag_key_tag, "k", 1);
	size_t size = put_field(buffer, gpushare_Buffer_name_tag, "n", 1), total;

	for (int count = 1; count <= 5; count++) {
		size += put_field(buffer + size, gpushare_Buffer_tags_tag, tag, one);
		total = put_field(share, gpushare_Share_buffer_tag, buffer, size);
		total = put_field(message, gpushare_Request_share_tag, share, total);
		assert_int_equal(codec_decode_request(message, total, &asked),
				 count <= 4 ? GPUSHARE_OK : GPUSHARE_E_PROTOCOL);
	}
}

static void nonsense_is_refused(void **state)
{
	uint8_t unknown[16];
	size_t size = put_field(unknown, 15, "abc", 3);

	assert_int_equal(codec_decode_request(wire, 0, &asked), GPUSHARE_E_PROTOCOL);
	assert_int_equal(codec_decode_request(unknown, size, &asked), GPUSHARE_E_PROTOCOL);
	memset(wire, 0, sizeof(wire));
	assert_int_equal(codec_decode_request(wire, sizeof(wire), &asked), GPUSHARE_E_PROTOCOL);
	/* an empty reply means OK; a positive status is invalid */
	assert_int_equal(codec_decode_reply(wire, 0, &answered), GPUSHARE_OK);
	assert_int_equal(answered.status, GPUSHARE_OK);
	assert_int_equal(codec_decode_reply((const uint8_t *)"\x08\x02", 2, &answered),
			 GPUSHARE_E_PROTOCOL);
	assert_int_equal(codec_decode_reply((const uint8_t *)"\x08\x05", 2, &answered),
			 GPUSHARE_OK);
	assert_int_equal(answered.status, GPUSHARE_E_NOT_FOUND);
}

UNIT_MAIN(UNIT(messages_round_trip), UNIT(no_room_is_refused), UNIT(cut_messages_are_refused),
	  UNIT(every_name_is_checked), UNIT(a_string_ends_at_a_nul), UNIT(lengths_are_fixed),
	  UNIT(too_many_tags_are_refused), UNIT(nonsense_is_refused))
