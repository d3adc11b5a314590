/* SPDX-License-Identifier: MIT */
/* The codec: what breaks a bound, byte by byte, is refused. */
#include "unit.h"

#include <pb_common.h>

#include "protocol.h"

static uint8_t wire[GPUSHARE_MESSAGE_MAX];
static request asked;
static reply answered;

/* tag, length, that many bytes; wrapped once more as a verb. */
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

static void names_are_checked(void **state)
{
	static const char *const bad[] = {"",	" ",   "a b", "a\nb", "ü",
					  "a*", "a,b", "a:b", "%i",   "a\x7f"};
	static char longest[GPUSHARE_NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(decode_lookup_of(bad[i], strlen(bad[i])), GPUSHARE_E_NAME);
	memset(longest, 'a', sizeof(longest));
	assert_int_equal(decode_lookup_of(longest, GPUSHARE_NAME_MAX), GPUSHARE_OK);
	assert_int_equal(decode_lookup_of(longest, GPUSHARE_NAME_MAX + 1), GPUSHARE_E_PROTOCOL);
	assert_int_equal(decode_lookup_of("plain", 5), GPUSHARE_OK);
	assert_string_equal(asked.verb.lookup.name, "plain");
}

/* Every verb of the schema whose first field is a name; list's is a pattern, and share's is a buffer. */
static void every_verb_checks_its_name(void **state)
{
	static const char escape[] = "a\x1b[31m";
	uint8_t field[32], message[64];
	int named = 0;

	(void)state;
	for (uint32_t tag = 1; tag < 1000; tag++) {
		pb_field_iter_t verb, name;
		size_t size;

		if (tag == gpushare_Request_list_tag ||
		    !pb_field_iter_begin_const(&verb, gpushare_Request_fields, &asked) ||
		    !pb_field_iter_find(&verb, tag) ||
		    !pb_field_iter_begin_const(&name, verb.submsg_desc, NULL) ||
		    !pb_field_iter_find(&name, 1) || PB_LTYPE(name.type) != PB_LTYPE_STRING ||
		    name.data_size != GPUSHARE_NAME_MAX + 1)
			continue;
		named++;
		size = put_field(field, 1, escape, sizeof(escape) - 1);
		size = put_field(message, (int)tag, field, size);
		if (codec_decode_request(message, size, &asked) != GPUSHARE_E_NAME)
			fail_msg("the name in verb %u is not checked", tag);
	}
	assert_in_range(named, 8, 100);
}

static void a_string_ends_at_a_nul(void **state)
{
	(void)state;
	assert_int_equal(decode_lookup_of("a\0\n", 3), GPUSHARE_OK);
	assert_string_equal(asked.verb.lookup.name, "a");
	assert_int_equal(decode_lookup_of("\0a", 2), GPUSHARE_E_NAME);
}

static void lengths_are_fixed(void **state)
{
	uint8_t handle[GPUSHARE_HANDLE_SIZE + 1] = {1}, share[128], message[160];

	(void)state;
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

	(void)state;
	for (int count = 1; count <= 5; count++) {
		size += put_field(buffer + size, gpushare_Buffer_tags_tag, tag, one);
		total = put_field(share, gpushare_Share_buffer_tag, buffer, size);
		total = put_field(message, gpushare_Request_share_tag, share, total);
		assert_int_equal(codec_decode_request(message, total, &asked),
				 count <= 4 ? GPUSHARE_OK : GPUSHARE_E_PROTOCOL);
	}
}

/* A buffer that the registry hands out has a name; a share that adopted nothing hands out none. */
static void an_adopted_name_is_checked(void **state)
{
	size_t size;

	(void)state;
	answered = (reply){.which_body = gpushare_Reply_share_tag};
	answered.body.share.generation = 5;
	assert_int_equal(codec_encode_reply(&answered, wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_int_equal(codec_decode_reply(wire, size, &answered), GPUSHARE_OK);
	answered.body.share.has_buffer = true;
	strcpy(answered.body.share.buffer.name, "a b");
	assert_int_equal(codec_encode_reply(&answered, wire, sizeof(wire), &size), GPUSHARE_OK);
	assert_int_equal(codec_decode_reply(wire, size, &answered), GPUSHARE_E_PROTOCOL);
}

static void nonsense_is_refused(void **state)
{
	uint8_t unknown[16];
	size_t size = put_field(unknown, 15, "abc", 3);

	(void)state;
	assert_int_equal(codec_decode_request(wire, 0, &asked), GPUSHARE_E_PROTOCOL);
	assert_int_equal(codec_decode_request(unknown, size, &asked), GPUSHARE_E_PROTOCOL);
	memset(wire, 0, sizeof(wire));
	assert_int_equal(codec_decode_request(wire, sizeof(wire), &asked), GPUSHARE_E_PROTOCOL);
	/* a reply of nothing is a plain OK; a positive status is none of ours */
	assert_int_equal(codec_decode_reply(wire, 0, &answered), GPUSHARE_OK);
	assert_int_equal(answered.status, GPUSHARE_OK);
	assert_int_equal(codec_decode_reply((const uint8_t *)"\x08\x02", 2, &answered),
			 GPUSHARE_E_PROTOCOL);
	assert_int_equal(codec_decode_reply((const uint8_t *)"\x08\x05", 2, &answered),
			 GPUSHARE_OK);
	assert_int_equal(answered.status, GPUSHARE_E_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_checked),
	    cmocka_unit_test(every_verb_checks_its_name),
	    cmocka_unit_test(a_string_ends_at_a_nul),
	    cmocka_unit_test(lengths_are_fixed),
	    cmocka_unit_test(too_many_tags_are_refused),
	    cmocka_unit_test(an_adopted_name_is_checked),
	    cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
